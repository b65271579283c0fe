"""The commands of `rlft review`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from cli.review.ask import ask
from cli.review.collect import collect


class _AskByDefault(TyperGroup):
    """Takes what is no command for the arguments of `ask`."""

    default = "ask"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_AskByDefault,
    no_args_is_help=True,
    help="Ask people about attempts of a run in MLflow's review queue, and bring back what they said.",
)
for command in (ask, collect):
    app.command()(command)

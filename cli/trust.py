"""Asks before the code of a run is run that somebody else has begun."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mlops.display.terminal import errors, styled
from mlops.home.folder import Home
from mlops.home.trusted import trust
from rlft.config import Config
from rlft.config.reach import asks_of
from rlft.errors import UntrustedError

if TYPE_CHECKING:
    from zenml.models import PipelineRunResponse

logger = logging.getLogger(__name__)
Trust = Annotated[
    bool, typer.Option("--trust", help="Do not ask before the code of a run is run that somebody else has begun.")
]


def agree(home: Home, run: PipelineRunResponse, name: str, config: Config, *, trusted: bool) -> None:
    """Return if the run is the user's own, or if they agree to what it would run, which is then noted.

    `run` is the attempt whose settings are used, `config` these settings with the user's changes, and `trusted` says
    that the user has agreed already. Raises UntrustedError where nobody can be asked, and typer.Exit after a no.
    """
    from mlops.runs.owners import somebody_else

    if (who := somebody_else(home, run)) is None:
        return
    begun = f"{name} was begun by {who}"
    if trusted:
        logger.warning("%s; --trust runs what it names", begun)
    else:
        _ask(begun, asks_of(config))
    trust(home, (run.config.parameters or {})["config"])


def _ask(begun: str, asks: Sequence[str]) -> None:
    would = "it would run with your rights and your variables:\n" + "\n".join(f"    {each}" for each in asks)
    if not sys.stdin.isatty():
        fix = "look at what it names and, if you trust who wrote that, give the command again with --trust"
        raise UntrustedError(f"{begun}, and {would}", where="RUN", fix=fix)
    errors.print(styled(f"{begun}, and {would}", "yellow"), soft_wrap=True)
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)

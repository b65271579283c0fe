"""`rlft rollback`: the champion before this one is champion again."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, reason_of, registry
from rlft.terminal import console


def rollback(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, in a sentence; it is noted in the registry.")],
    to: Annotated[
        str | None, typer.Option(help="The version to go back to; without it the one that the champion replaced.")
    ] = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Let the alias champion name an earlier champion again, and note who did it, when, and why."""
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model, version_number
        from mlops.registry.decisions import roll_back
        from mlops.registry.names import who_am_i

        why = reason_of(reason)
        model = find_model(asked.client, name).name
        target = None if to is None else version_number(to, "--to")
        who = who_am_i(asked.client.tracking_uri)
        with asked.alone:
            done = roll_back(asked.client, model, target, why, who)
        if as_json:
            said = {"name": model, "before": done.before, "version": done.to}
            console.write_json({**said, "by": who.name, "verified": who.verified, "reason": why})
        else:
            console.print(f"version {done.to} of {model} is champion again, in the place of version {done.before}")
            console.print(f"noted: {who}: {why}; `rlft history {model}{asked.options}` tells it")

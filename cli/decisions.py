"""`rlft approve`, `rlft reject` and `rlft rollback`: what a person decides about versions, noted in the registry."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, Version, reason_of, registry
from rlft.terminal import console

_Reason = Annotated[str, typer.Option(help="Why, in a sentence; it is noted in the registry.")]


def approve(
    name: Name,
    version: Version,
    reason: Annotated[str | None, typer.Option(help="Why, in a sentence; it is noted in the registry.")] = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a version that waits for approval the champion, if nothing has moved since it was decided about.

    Its files, the champion that it was compared with, and the look at its gate must be what they were.
    """
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model, version_of
        from mlops.registry.decisions import approve as decide
        from mlops.registry.names import who_am_i

        why = reason_of(reason) if reason is not None else ""
        model, who = find_model(asked.client, name).name, who_am_i(asked.client.tracking_uri)
        with asked.alone:
            found = version_of(asked.client, model, version)
            before = decide(asked.client, found, why, who)
        instead = f", in the place of version {before}" if before else ""
        said = {"name": model, "version": str(found.version), "verdict": "approved", "before": before}
        _tell(f"version {found.version} of {model} is champion{instead}", said, who.name, why, as_json=as_json)


def reject(
    name: Name,
    version: Version,
    reason: _Reason,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Note that a version that waits for approval does not become the champion, with who decided it, when, and why."""
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model, version_of
        from mlops.registry.decisions import reject as decide
        from mlops.registry.names import who_am_i

        why = reason_of(reason)
        model, who = find_model(asked.client, name).name, who_am_i(asked.client.tracking_uri)
        with asked.alone:
            found = version_of(asked.client, model, version)
            decide(asked.client, found, why, who)
        said = {"name": model, "version": str(found.version), "verdict": "rejected"}
        done = f"version {found.version} of {model} does not become the champion"
        _tell(done, said, who.name, why, as_json=as_json)


def rollback(
    name: Name,
    reason: _Reason,
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
        target = None if to is None else version_number(to, "--to")
        model, who = find_model(asked.client, name).name, who_am_i(asked.client.tracking_uri)
        with asked.alone:
            done = roll_back(asked.client, model, target, why, who)
        said = {"name": model, "before": done.before, "version": done.to}
        back = f"version {done.to} of {model} is champion again, in the place of version {done.before}"
        _tell(back, said, who.name, why, as_json=as_json)


def _tell(done: str, said: dict[str, Any], who: str, why: str, *, as_json: bool) -> None:
    """Say what was done and noted; as JSON `said` and what was noted."""
    if as_json:
        console.write_json({**said, "by": who, "reason": why})
        return
    console.print(done)
    console.print(f"noted: {who}" + (f": {why}" if why else ""))

"""`rlft approve`, `reject` and `rollback`: what people decide about versions; `rlft history`: who was champion when."""

from __future__ import annotations

from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, Version, reason_of, registry
from rlft.reporting.terminal import Terminal, console, styled

if TYPE_CHECKING:
    from mlops.registry.decisions import History

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
        from mlops.registry.decisions import who_am_i

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
        from mlops.registry.decisions import who_am_i

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
        from mlops.registry.decisions import roll_back, who_am_i

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


_LISTED = 10  # versions that were not promoted


def history(
    name: Name,
    full: Annotated[bool, typer.Option("--full", help="Show all sentences of the decisions at the gate.")] = False,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Say who was champion from when to when, and why: promotions, approvals, rollbacks, and moves outside rlft.

    Versions that were not promoted follow, each with the rules that failed.
    """
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model
        from mlops.registry.decisions import read_history

        found = read_history(asked.client, find_model(asked.client, name).name)
        if as_json:
            console.write_json(found.model_dump(mode="json"))
        else:
            show_history(console, found, asked.options, full=full)


def show_history(console: Terminal, found: History, options: str, *, full: bool) -> None:
    """Print the spells of a registered model, the first one first, each with who made it and the reason given.

    With `full` the sentences of the gate's decision follow. `options` are those by which the registry was asked.
    """
    for past in found.history:
        who = "no version" if past.version is None else f"version {past.version}"
        ended = "now" if past is found.history[-1] else _time(past.until)
        console.print(styled(f"{who}, from {_time(past.since)} to {ended}", "bold"))
        console.print_behind("  ", f"{past.how} by {past.by}" if past.by else past.how)
        for reason in past.why if full else filter(None, [past.reason]):
            console.print_behind("    ", reason)
    for version in found.not_promoted[:_LISTED]:
        console.print(f"version {version.version} was not promoted")
        for reason in version.why:
            console.print_behind("  ", reason)
    if (more := len(found.not_promoted) - _LISTED) > 0:
        console.print(f"{more} older versions were not promoted either (--json lists all)")
    for version in found.waiting:
        ends = f"{quote(found.name)} {version} --reason TEXT{options}"
        console.print(
            f"version {version} has passed its gate and waits: `rlft approve {ends}`, or `rlft reject {ends}`"
        )
    if not full and any(past.why and past.why != [past.reason] for past in found.history):
        console.print("--full shows what each decision has found")
    now = f"version {found.champion} is champion" if found.champion else "there is no champion"
    console.print(f"{found.name}: {now}")


def _time(time: datetime | None) -> str:
    return "an unknown time" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"

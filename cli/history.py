"""`rlft history`: which version of a registered model was champion from when to when, and why."""

from __future__ import annotations

from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, registry
from rlft.terminal import Terminal, console, styled

if TYPE_CHECKING:
    from mlops.registry.decisions import History

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
            console.write_json(found.as_json())
        else:
            show_history(console, found, asked.options, full=full)


def show_history(console: Terminal, found: History, options: str, *, full: bool) -> None:
    """Print the spells of a registered model, the first one first, each with who made it and the reason given.

    With `full` the sentences of the gate's decision follow. `options` are those by which the registry was asked.
    """
    for past in found.past:
        who = "no version" if past.version is None else f"version {past.version}"
        ended = "now" if past is found.past[-1] else _time(past.until)
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
    if not full and any(past.why and past.why != [past.reason] for past in found.past):
        console.print("--full shows what each decision has found")
    now = f"version {found.champion} is champion" if found.champion else "there is no champion"
    console.print(f"{found.name}: {now}")


def _time(time: datetime | None) -> str:
    return "an unknown time" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"

"""The commands about registered models, and how these, `rlft export` and `rlft serve` ask a registry.

`rlft approve`, `reject` and `rollback` are what people decide about versions; `rlft history` says who was champion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.home.databases import check_home
from mlops.home.folder import Home, find_home
from mlops.home.processes import aliases_lock
from mlops.stacks.stack import check_tracking_address, connect
from mlops.tracking.address import PATIENT_HTTP
from rlft.errors import RlftError
from rlft.reporting.terminal import Terminal, console, styled
from rlft.texts.secrets import find_secrets

if TYPE_CHECKING:
    from mlops.registry.client import RegistryClient
    from mlops.registry.decisions import History

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the registered model; models:/NAME will do, too.")]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="Number of the version.")]
RegistryStack = Annotated[
    str | None, typer.Option("--stack", help="Use the registry of this ZenML stack of yours; without it .rlft/'s.")
]
TrackingUri = Annotated[
    str | None,
    typer.Option("--tracking-uri", help="Use the registry at this address of an MLflow server or database."),
]


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that answers: its client, and the lock under which it is changed, if it has one.

    `options` are those by which another command asks the same registry.
    """

    client: RegistryClient
    alone: AbstractContextManager[None]
    options: str


@contextmanager
def registry(stack: str | None, tracking_uri: str | None) -> Iterator[Registry]:
    """Let the registry of a stack, at an address, or of the home be asked inside.

    Raises RlftError where there is none, and TrackerError, a sentence, for what goes wrong with it.
    """
    address, alone, options = _address(find_home(), stack, tracking_uri)
    from mlops.registry.client import RegistryClient
    from mlops.tracking.address import answering

    os.environ["MLFLOW_TRACKING_URI"] = address  # without it, fluent calls of libraries write ./mlflow.db
    with answering(address, PATIENT_HTTP):
        yield Registry(RegistryClient(address), alone, options)


def _address(home: Home, stack: str | None, tracking_uri: str | None) -> tuple[str, AbstractContextManager[None], str]:
    if stack is not None and tracking_uri is not None:
        raise RlftError("both name a registry", where="--stack, --tracking-uri", fix="give one of the two")
    if stack is not None:
        return connect(home, stack), nullcontext(), f" --stack {stack}"
    if tracking_uri is not None:
        check_tracking_address(tracking_uri, where="--tracking-uri")
        return tracking_uri, nullcontext(), f" --tracking-uri {tracking_uri}"
    check_home(home)
    if not home.note.is_file():
        raise RlftError("nothing has been registered yet", where=str(home.root), fix="start a run first")
    return home.tracking_uri, aliases_lock(home), ""


def reason_of(text: str) -> str:
    """Return a reason that is noted. Raises RlftError for an empty or too long one, and for a secret."""
    reason = " ".join(text.split())
    if not reason or len(reason) > _LONGEST:
        raise RlftError(f"a reason has 1 to {_LONGEST} characters", where="--reason", fix="say in a sentence why")
    if find_secrets({"--reason": reason}):
        raise RlftError(
            "looks like a secret, and would be stored in the registry", where="--reason", fix="leave it out"
        )
    return reason


_LONGEST = 2000


_Reason = Annotated[str, typer.Option(help="Why, in a sentence; it is noted in the registry.")]


def approve(
    name: Name,
    version: Version,
    reason: Annotated[str | None, typer.Option(help="Why, in a sentence; it is noted in the registry.")] = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a version that waits for approval the champion, if nothing has moved since it was decided about.

    Its files, the champion that it was compared with, and the look at its gate must be what they were.
    """
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import version_of
        from mlops.registry.decisions import approve

        model, who, why = _who_decides(asked, name, reason)
        with asked.alone:
            found = version_of(asked.client, model, version)
            before = approve(asked.client, found, why, who)
        instead = f", in the place of version {before}" if before else ""
        said = {"name": model, "version": str(found.version), "verdict": "approved", "before": before}
        _tell(f"version {found.version} of {model} is champion{instead}", said, who, why, as_json=as_json)


def reject(
    name: Name,
    version: Version,
    reason: _Reason,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Note that a version that waits for approval does not become the champion, with who decided it, when, and why."""
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import version_of
        from mlops.registry.decisions import reject

        model, who, why = _who_decides(asked, name, reason)
        with asked.alone:
            found = version_of(asked.client, model, version)
            reject(asked.client, found, why, who)
        said = {"name": model, "version": str(found.version), "verdict": "rejected"}
        done = f"version {found.version} of {model} does not become the champion"
        _tell(done, said, who, why, as_json=as_json)


def rollback(
    name: Name,
    reason: _Reason,
    to: Annotated[
        str | None, typer.Option(help="The version to go back to; without it the one that the champion replaced.")
    ] = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Let the alias champion name an earlier champion again, and note who did it, when, and why."""
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import version_number
        from mlops.registry.decisions import roll_back

        target = None if to is None else version_number(to, "--to")
        model, who, why = _who_decides(asked, name, reason)
        with asked.alone:
            done = roll_back(asked.client, model, target, why, who)
        said = {"name": model, "before": done.before, "version": done.to}
        back = f"version {done.to} of {model} is champion again, in the place of version {done.before}"
        _tell(back, said, who, why, as_json=as_json)


def _who_decides(asked: Registry, name: str, reason: str | None) -> tuple[str, str, str]:
    """Return the model's name in the registry, who decides about it, and why."""
    from mlops.registry.client import find_model
    from mlops.registry.decisions import who_am_i

    why = reason_of(reason) if reason is not None else ""
    return find_model(asked.client, name).name, who_am_i(asked.client.tracking_uri), why


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
    as_json: ResultAsJson = False,
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

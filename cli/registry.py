"""What the commands about registered models share: the options that say where the registry is, and a way to ask it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mlops.home.databases import check_home
from mlops.home.folder import Home, find_home
from mlops.home.processes import aliases_lock
from mlops.stacks.stack import check_tracking_address, connect
from mlops.tracking.address import PATIENT_HTTP
from rlft.errors import RlftError
from rlft.texts.characters import visible
from rlft.texts.secrets import find_secrets

if TYPE_CHECKING:
    from mlops.registry.client import RegistryClient

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the registered model; models:/NAME will do, too.")]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="Number of the version.")]
RegistryStack = Annotated[
    str | None, typer.Option("--stack", help="Use the registry of this ZenML stack of yours; without it .rlft/'s.")
]
TrackingUri = Annotated[
    str | None,
    typer.Option("--tracking-uri", help="Use the registry at this address of an MLflow server or database."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


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
    """Return a reason that is noted. Raises RlftError for one that says nothing, or is longer than a note should be."""
    reason = " ".join(text.split())
    if not reason or len(reason) > _LONGEST:
        raise RlftError(f"a reason has 1 to {_LONGEST} characters", where="--reason", fix="say in a sentence why")
    if visible(reason) != reason:
        raise RlftError("holds a character that cannot be seen, or is no UTF-8", where="--reason", fix="leave it out")
    if find_secrets({"--reason": reason}):
        raise RlftError(
            "looks like a secret, and would be stored in the registry", where="--reason", fix="leave it out"
        )
    return reason


_LONGEST = 2000

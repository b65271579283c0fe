"""What a person gives a run, name and tags, and the commits it was started from; a resume keeps them.

One that was given no name has its experiment, what differs from its config, the day, and four digits that no other
run of the day has: `demo-seed=1-2026-11-26-9c1e`. Commands take the beginning of a name, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from shlex import quote
from typing import TYPE_CHECKING, Any

from pydantic import Field

from mlops.ids import OTHERS, is_name_of_attempt
from rlft.config.file import holds_secret
from rlft.config.section import Section, check_name
from rlft.errors import RlftError
from rlft.texts.secrets import find_secrets, redact

if TYPE_CHECKING:
    from zenml.models import PipelineRunResponse


_SHORT = re.compile(r"[\w.+-]{1,24}", re.ASCII)  # a value that a name can hold
_LONGEST_NAME = 60  # characters of a short name


def default_name(experiment: str, overrides: Sequence[str]) -> str:
    """Return a name that tells what a run is about: its experiment, what differs from the config, and the day.

    Of the `overrides`, `key=value`, those are named that are short and no secret, as far as there is room. The random
    digits at the end keep those apart that begin at once.
    """
    changes = {key: value for key, _, value in (each.partition("=") for each in overrides)}
    shown = {k: value for k, value in changes.items() if _SHORT.fullmatch(value) and not holds_secret(f"{k}={value}")}
    return "-".join(filter(None, [experiment, short_name(shown), f"{datetime.now():%Y-%m-%d}", token_hex(2)]))


def short_name(changes: Mapping[str, str]) -> str:
    """Return what differs as a part of a name of at most 60 characters, such as `learning_rate=3e-4,seed=1`.

    Of a key only the last part stands there. Signs that are no good in a name are replaced by `_`, and the last
    settings are left out where there is no room.
    """
    name = ""
    for key, value in changes.items():
        text = re.sub(r"[^\w.,=+-]", "_", f"{key.rsplit('.', 1)[-1]}={value}", flags=re.ASCII)
        if name and len(name) + 1 + len(text) > _LONGEST_NAME:
            break
        name = f"{name},{text}" if name else text[:_LONGEST_NAME]
    return name


def run_called(name: str) -> PipelineRunResponse | None:
    """Return the run that has this name in ZenML, whose set-up must be that of the run; `None` if none has."""
    from zenml.client import Client

    return next(iter(Client().list_pipeline_runs(name=f"equals:{name}", size=1).items), None)


RESERVED = ("experiment", "run", "replay_of", "round")  # tags that rlft gives itself
LONGEST_TAG = 250  # characters


class Labels(Section):
    """The `name` of a run and `tags` that the user gave it, and `commits` as `users_commits` finds them."""

    name: str
    tags: dict[str, str] = Field(default={})
    commits: dict[str, str] = Field(default={})


def make_labels(
    experiment: str,
    *,
    name: str | None,
    tags: Sequence[str],
    commits: dict[str, str],
    overrides: Sequence[str] = (),
) -> Labels:
    """Check what the user gave, and make labels of it. Raises RlftError.

    Without a `name` the `experiment`, what `overrides` change and the day make one (`default_name`).
    `tags` are texts `key=value`. What looks like a secret is refused: it would be stored with the run.
    """
    given = dict(_pair(tag) for tag in tags)
    if found := find_secrets({"--name": name or "", "--tag": given}):
        raise _refused(found[0], "looks like a secret, and would be stored with the run", "leave it out")
    if name is None:
        name = default_name(experiment, overrides)
    else:
        _check_run_name(name)
    return Labels(name=name, tags=given, commits=commits)


def labels_of(parameter: dict[str, Any] | None, run_name: str = "") -> Labels:
    """Return the labels that a pipeline was given; if there are none, those of a run of this name."""
    return Labels.model_validate(parameter or {"name": run_name})


def refuse_taken(name: str) -> None:
    """Raise RlftError if ZenML has a run of this name. Call once ZenML's set-up is that of the run."""
    if (run := run_called(name)) is not None:
        trains = run.pipeline is None or run.pipeline.name not in OTHERS
        goes_on = f"`rlft resume {quote(name)}`" if trains else "the command that it was begun with"
        raise _refused(
            "--name",
            f"a run is called {name!r} already (begun {run.created:%Y-%m-%d %H:%M} UTC)",
            f"give another name; {goes_on} goes on with it if it was cut short (`rlft runs`)",
        )


def _check_run_name(name: str) -> None:
    """Raise RlftError for a name that rlft or ZenML would take for something else."""
    try:
        check_name(name)
    except ValueError as wrong:
        raise _refused("--name", str(wrong), "give another name") from None
    if set(name) & set("{}") or is_name_of_attempt(name):
        problem = f"{name!r} holds what ZenML fills in, or looks like the name of a later attempt at a run"
        raise _refused("--name", problem, "give another name")


def _pair(tag: str) -> tuple[str, str]:
    """Split `key=value`. Raises RlftError for a tag of another form, or one that is reserved."""
    key, separator, value = tag.partition("=")
    if not separator or not key or not value:
        raise _refused("--tag", "a tag is key=value", "write --tag dataset=2026-11")
    if not re.fullmatch(r"[A-Za-z][\w./-]*", key, re.ASCII):
        raise _refused(
            "--tag", f"the key {redact(key)!r:.80} cannot be one", "begin with a letter; use letters, digits, _ . - /"
        )
    if key in RESERVED or key.split(".")[0] in ("mlflow", "rlft", "zenml"):
        raise _refused("--tag", f"tags called {key!r} are set by rlft and MLflow themselves", "give it another key")
    if not value.isprintable() or len(tag) > LONGEST_TAG:
        problem = f"{key}: a tag is a line of at most {LONGEST_TAG} characters that can be seen"
        raise _refused("--tag", problem, "say less")
    return key, value


def _refused(where: str, what: str, fix: str) -> RlftError:
    return RlftError(what, where=where, fix=fix)

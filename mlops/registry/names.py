"""Names and notes that registered versions and the runs that register them share, and what these say.

Each change of `champion` is a tag of the registered model, `mlflow.rlft.change.<time>.<version>`, written before the
alias is: from which version to which, who, when and why. So a writer may be killed between the two: what the next note,
or else the alias, began from says whether a change was made. Nothing heavy is imported here: the terminal reads these
notes, too.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

if TYPE_CHECKING:
    from rlft.promotion.decide import Approval


ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # MLflow's errors for what is not there
REGISTRATION = "register_policy"  # the id of a run's last step
ZENML_TAG = "zenml.run_id"  # of a version and an MLflow run: ZenML's id of the run that made it
RUN_NAME_TAG = "zenml.run_name"  # of a version and an MLflow run: ZenML's name of the run that made it
CHAMPION, CHALLENGER = "champion", "challenger"
FORMAT_TAG = "rlft.format"  # of a version: that of its tags and files (`rlft.formats.VERSION`)
RUN_TAG, MODEL_TAG = "rlft.run_id", "rlft.model_id"
PROMOTE_TAG = "rlft.promote"  # of a version: whether its gate was passed
# Of a version: whether a person has approved it; which champion its gate compared it with (no text: none), that one's
# hash of weights, and the tag of the registered model that holds which look at its gate this was.
APPROVAL_TAG = "rlft.approval"
COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG = "rlft.compared.version", "rlft.compared.weights_hash", "rlft.decided_at"
VERDICT_TAG = "rlft.verdict"  # of a version: who rejected it, when and why
WITHHELD_TAG = "rlft.withheld"  # of a version: why it did not become champion although its gate was passed
REASONS_TAG = "rlft.reasons"  # of a version: the sentences of its decision
SCORE_TAG = "rlft.score."  # of a version, with the metric that decides behind it: its mean on the gate
PASSED_TAG = "rlft.gate"  # of a version: whether it `passes` its gate, or which of its rules it fails
HASH_TAG = "rlft.weights_hash"  # of a logged model, and of the version that is made of it
FILES_TAG = "rlft.files_hash"  # of a version: that of all its files

HIDDEN = "mlflow."  # begins the names of tags that MLflow keeps for machines, and shows nobody
RECORD_TAG = f"{HIDDEN}rlft.record"  # of a version: the id under which its registered model has its records
RECORDS = frozenset(
    {
        FORMAT_TAG,
        ZENML_TAG,
        RUN_NAME_TAG,
        RUN_TAG,
        MODEL_TAG,
        COMPARED_TAG,
        COMPARED_HASH_TAG,
        DECIDED_TAG,
        REASONS_TAG,
        HASH_TAG,
        FILES_TAG,
        PROMOTE_TAG,
        VERDICT_TAG,
        WITHHELD_TAG,
        "rlft.round",
        "rlft.name",
        "rlft.environment",
    }
)
"""The tags of a version that rlft reads again and no person needs; `mlops.registry.client` says how they are stored."""
# Of a registered model: how often a gate was looked at, and changes of `champion` (`mlops.registry.gates`).
GATE_TAG, LOOK_TAG, DIFFERS_TAG, CHANGE_TAG = (
    f"{HIDDEN}rlft.{name}." for name in ("gate", "look", "differs", "change")
)
_STATES: dict[str, Approval] = {"pending": "pending", "approved": "approved", "rejected": "rejected"}
FAILS = "fails: "  # how the sentence of a rule begins that has failed
_JUDGED = (FAILS, "passes: ", "no worse than ")  # how those of all rules do, which are no remarks
Kind = Literal["promotion", "approval", "rollback", "rejection"]
VersionNumber = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}$")]


class Person(BaseModel):
    """Who has decided."""

    model_config = ConfigDict(frozen=True)

    name: str


class Change(BaseModel):
    """What was decided about the version `to`: by whom, when in UTC by the writer's clock, and why, if that was said.

    `before` is what `champion` named then, `None` if nothing. A rejection moves no alias, and is a tag of the version.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    before: VersionNumber | None = None
    to: VersionNumber
    who: Person | None = None
    at: AwareDatetime
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = f": {' '.join(self.why)}" if self.why else ""
        return f" by {self.who.name if self.who else '?'}, {self.at:%Y-%m-%d %H:%M} UTC{why}"


@dataclass(frozen=True, slots=True)
class Move:
    """`champion` went from version `before` to `to`, where `None` is none. A move of other clients has no `change`."""

    before: str | None
    to: str | None
    change: Change | None


def read_changes(tags: Mapping[str, str]) -> list[Change]:
    """Return the changes that a registered model's tags hold, those first that came first."""
    found = [Change.model_validate_json(kept) for key, kept in tags.items() if key.startswith(CHANGE_TAG)]
    return sorted(found, key=lambda each: each.at)


def find_moves(changes: Sequence[Change], champion: str | None) -> list[Move]:
    """Return the moves of `champion`, which names this version now, those first that came first.

    A change was not made if the alias was seen afterwards where it began. Those that nobody noted are told, too.
    """
    moves: list[Move] = []

    def go(to: str | None, change: Change | None = None) -> None:
        before = moves[-1].to if moves else None
        if to != before:
            moves.append(Move(before, to, change))

    seen = [*(each.before for each in changes[1:]), champion]
    for change, after in zip(changes, seen, strict=False):
        go(change.before)
        if after != change.before:
            go(change.to, change)
    go(champion)
    return moves


def approved_by(moves: Sequence[Move], version: str) -> Move | None:
    """Return the last move by which an approval made a version the champion."""
    found = [move for move in moves if move.change and (move.change.kind, move.to) == ("approval", version)]
    return found[-1] if found else None


def waits(tags: Mapping[str, str], version: str, moves: Sequence[Move]) -> bool:
    """Return whether a version waits for a person: whether `rlft approve` and `rlft reject` take it.

    `tags` are its own and `moves` those of `champion`. One that another client has made the champion waits on.
    """
    return approval_of(tags) == "pending" and approved_by(moves, version) is None


def approval_of(tags: Mapping[str, str]) -> Approval:
    """Return what the tags of a version say about its approval; empty where nobody is to decide.

    A rejection counts, which is written before the tag that people search by.
    """
    state = _STATES.get(tags.get(APPROVAL_TAG, ""), "")
    return "rejected" if state == "pending" and rejection_of(tags) else state


def rejection_of(tags: Mapping[str, str]) -> Change | None:
    """Return the rejection that the tags of a version hold; `None` without one."""
    return Change.model_validate_json(tags[VERDICT_TAG]) if VERDICT_TAG in tags else None


def failing(reasons: Sequence[str]) -> list[str]:
    """Return those of the sentences of a decision that kept the policy from being promoted."""
    return [reason for reason in reasons if reason.startswith(FAILS)]


def failed_of_all(reasons: Sequence[str]) -> str:
    """Return how many sentences of a decision say that a rule fails, of all that judge one: `1 of 6 rules fails`."""
    failed, judged = len(failing(reasons)), sum(reason.startswith(_JUDGED) for reason in reasons)
    return f"{failed} of {judged} rules {'fails' if failed == 1 else 'fail'}"


def why_failed(tags: Mapping[str, str]) -> list[str]:
    """Return the sentences of the rules that failed at the gate of a version; all of its decision if none says so."""
    reasons = tags.get(REASONS_TAG, "").splitlines()
    return failing(reasons) or reasons


def why_not_promoted(tags: Mapping[str, str]) -> list[str] | None:
    """Return why the version with these tags was not promoted; `None` of one that was, that waits, or is not rlft's."""
    if tags.get(PROMOTE_TAG) == "false":
        return why_failed(tags)
    if approval_of(tags) == "rejected":
        return [f"rejected{rejection_of(tags) or ''}"]
    return [tags[WITHHELD_TAG]] if WITHHELD_TAG in tags else None


def who_am_i(tracking_uri: str) -> Person:
    """Return who decides: at a server the user whose name and password MLflow sends, else the user of this machine."""
    if tracking_uri.startswith(("http://", "https://")) and (name := os.environ.get("MLFLOW_TRACKING_USERNAME")):
        return Person(name=name)
    try:  # not `getpass.getuser`, which believes what the environment says
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return Person(name=f"{user}@{socket.gethostname()}")

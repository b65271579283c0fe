"""A person's decision about a version that has passed its gate: approving makes it the champion, rejecting does not."""

from __future__ import annotations

from shlex import quote

from mlflow.entities.model_registry import ModelVersion

from mlops.registry.aliases import cut_short, put_forward, write_change
from mlops.registry.changes import now
from mlops.registry.client import RegistryClient
from mlops.registry.ledger import Ledger, read_ledger
from mlops.registry.moved import again, what_moved
from mlops.registry.names import PROMOTE_TAG, REASONS_TAG
from mlops.registry.people import Person
from mlops.registry.reasons import FAILS, why_failed
from mlops.registry.rollback import way_back
from mlops.registry.verdicts import Verdict, approval_of, approved_by, told_of, verdict_of, waits, write_verdict
from rlft.errors import RefusedError


def approve(client: RegistryClient, version: ModelVersion, reason: str, who: Person) -> str | None:
    """Make a version that waits for approval the champion; returns what `champion` named before.

    An approval that was cut short is ended. Raises RefusedError if the version does not wait, or if something that its
    decision rested on has moved; and what MLflow raises.
    """
    name, number = version.name, str(version.version)
    ledger = read_ledger(client, name)
    reasons = tuple(version.tags.get(REASONS_TAG, "").splitlines())
    made = approved_by(ledger.moves, number)
    if made is not None and made.change is not None and approval_of(version.tags) == "pending":  # it was cut short
        put_forward(client, name, int(number), "approval", who, reasons)  # notes the end
        said = " ".join(line for line in made.change.why if line not in reasons)
        verdict = Verdict(verdict="approved", who=made.change.who or who, at=made.change.when, why=said)
        write_verdict(client, name, number, verdict)
        return made.before
    _check_waits(ledger, version)
    if moved := what_moved(client, version, ledger):
        raise RefusedError("; ".join(moved), where=f"models:/{name}/{number}", fix="evaluate it anew before it is used")
    why = ((reason,) if reason else ()) + reasons
    write_change(client, ledger, cut_short(ledger, "approval", number), "approval", number, who, why)
    write_verdict(client, name, number, Verdict(verdict="approved", who=who, at=now(), why=reason))
    return ledger.champion


def reject(client: RegistryClient, version: ModelVersion, reason: str, who: Person) -> None:
    """Note that a version that waits for approval does not become the champion. No alias is moved.

    Raises RefusedError if the version does not wait; and what MLflow raises.
    """
    _check_waits(read_ledger(client, version.name), version)
    verdict = Verdict(verdict="rejected", who=who, at=now(), why=reason)
    write_verdict(client, version.name, str(version.version), verdict)


def _check_waits(ledger: Ledger, version: ModelVersion) -> None:
    """Raise RefusedError unless a version waits for a person, and say what has become of it."""
    name, number = version.name, str(version.version)
    where = f"models:/{name}/{number}"
    if waits(version.tags, number, ledger.moves):
        return
    said, state = verdict_of(version.tags), approval_of(version.tags)
    if approved_by(ledger.moves, number) is not None or state == "approved":
        what = f"this version was approved already{told_of(said)}"
        raise RefusedError(what, where=where, fix=way_back(ledger, number))
    if state == "rejected":
        raise RefusedError(
            f"this version was rejected{told_of(said)}", where=where, fix="train or evaluate another one"
        )
    if version.tags.get(PROMOTE_TAG) == "true":
        why, fix = "it was registered without promotion.approval: required", f"`rlft history {quote(name)}`"
    else:
        failed = "; and ".join(reason.removeprefix(FAILS) for reason in why_failed(version.tags))
        why, fix = f"it has not passed its gate: {failed or 'why is not noted'}", again(version)
    raise RefusedError(f"this version does not wait for approval: {why}", where=where, fix=fix)

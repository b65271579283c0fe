"""Which versions wait for a person's approval, and what was decided about them, as the registry's notes say it.

Nothing heavy is imported here: `rlft runs` reads these notes, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from mlops.registry.names import APPROVAL_TAG, VERDICT_TAG
from mlops.registry.people import Person
from mlops.registry.spells import Move

if TYPE_CHECKING:
    from mlops.registry.client import RegistryClient
    from mlops.registry.ledger import Ledger
    from rlft.promotion import Approval

logger = logging.getLogger(__name__)
_STATES: dict[str, Approval] = {"pending": "pending", "approved": "approved", "rejected": "rejected"}


class Verdict(BaseModel):
    """A person's decision about a version, when in UTC by the machine's clock, and why, if that was said."""

    model_config = ConfigDict(frozen=True)

    verdict: Literal["approved", "rejected"]
    who: Person
    at: AwareDatetime
    why: str = ""


def approval_of(tags: Mapping[str, str]) -> Approval:
    """Return what the tags of a version say about its approval; empty where nobody is to decide.

    The verdict counts, which is written before the tag that people search by.
    """
    state = _STATES.get(tags.get(APPROVAL_TAG, ""), "")
    found = verdict_of(tags) if state == "pending" else None
    return found.verdict if found else state


def verdict_of(tags: Mapping[str, str]) -> Verdict | None:
    """Return the decision that the tags of a version hold; `None` without one, and with a warning if it is damaged."""
    if (kept := tags.get(VERDICT_TAG)) is None:
        return None
    try:
        return Verdict.model_validate_json(kept)
    except ValidationError as wrong:
        logger.warning("the tag %s of a version is damaged: %s", VERDICT_TAG, wrong.errors()[0]["msg"])
        return None


def told_of(verdict: Verdict | None) -> str:
    """Return who has decided, when and why, as the end of a sentence; nothing where that is not noted."""
    if verdict is None:
        return ""
    why = f": {verdict.why}" if verdict.why else ""
    return f" by {verdict.who}, {verdict.at:%Y-%m-%d %H:%M} UTC{why}"


def write_verdict(client: RegistryClient, name: str, version: str, verdict: Verdict) -> None:
    """Note a decision at its version: first the decision, which counts, then the tag that people search by."""
    client.set_model_version_tag(name, version, VERDICT_TAG, verdict.model_dump_json())
    client.set_model_version_tag(name, version, APPROVAL_TAG, verdict.verdict)


def approved_by(moves: Sequence[Move], version: str) -> Move | None:
    """Return the move by which an approval made a version the champion, whether or not its verdict was written."""
    found = [move for move in moves if (move.how, move.to) == ("approval", version)]
    return found[-1] if found else None


def waits(tags: Mapping[str, str], version: str, moves: Sequence[Move]) -> bool:
    """Return whether a version waits for a person: whether `rlft approve` and `rlft reject` take it.

    `tags` are its own and `moves` those of `champion`. A version waits on if its verdict is damaged, which says
    nothing, and if another client has made it the champion, which nobody has approved.
    """
    return approval_of(tags) == "pending" and approved_by(moves, version) is None


def waiting(client: RegistryClient, name: str, ledger: Ledger) -> list[str]:
    """Return the numbers of versions that wait for a person, the newest first, at most a thousand."""
    query = f"name = '{name}' AND tags.`{APPROVAL_TAG}` = 'pending'"
    found = client.search_model_versions(query, max_results=1000, order_by=["version_number DESC"])
    moves = ledger.moves
    return [str(each.version) for each in found if waits(each.tags, str(each.version), moves)]

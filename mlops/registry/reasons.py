"""Why a version was not promoted, as its tags say it: the rules that failed, a person, or what has moved meanwhile.

Nothing heavy is imported here: the terminal tells these sentences, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlops.registry.names import AGAIN_TAG, PROMOTE_TAG, REASONS_TAG, WITHHELD_TAG
from mlops.registry.verdicts import approval_of, told_of, verdict_of

FAILS = "fails: "  # how the sentence of a rule begins that has failed
_JUDGED = (FAILS, "passes: ", "no worse than ")  # how those of all rules do, which are no remarks


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
        return [f"rejected{told_of(verdict_of(tags))}"]
    return [tags[WITHHELD_TAG]] if WITHHELD_TAG in tags else None


def why_not_again(tags: Mapping[str, str]) -> list[str]:
    """Return why the newest comparison has not promoted a version that one before it had not, if the reasons differ."""
    newest = tags.get(AGAIN_TAG, "").splitlines()
    return newest if newest != why_not_promoted(tags) else []

"""What people said that attempts deserve, as cases of a specification."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rlft.messages import as_openai
from rlft.review.opinions import Opinion, deserving

TOLERANCE = 0.1
"""How far a total may lie from what was said, as a share of the full reward: people do not say it more exactly."""


def cases(opinions: Iterable[Opinion]) -> list[dict[str, Any]]:
    """Return a case for each attempt of which somebody said what it deserves, in the form of a specification's `cases`.

    Of what several people said the mean counts. An attempt with calls of tools is a list of its messages.
    """
    return [_case(found, mean) for found, mean in deserving(opinions)]


def _case(opinions: list[Opinion], deserved: float) -> dict[str, Any]:
    first = opinions[0]
    low, high = (deserved - TOLERANCE) * first.full, (deserved + TOLERANCE) * first.full
    whys = "; ".join(dict.fromkeys(each.why for each in opinions if each.why))
    who = "a person" if len(opinions) == 1 else f"{len(opinions)} people"
    reason = f"It deserves {deserved:.0%} by {who}; {first.rollout.rollout_id} was paid {first.reward.total:g}"
    bounds = {} if low <= 0 else {"at_least": round(low, 4)}
    bounds |= {} if high >= first.full and bounds else {"at_most": round(high, 4)}
    return {
        "attempt": _attempt(first),
        "task": first.task.id,
        **bounds,
        "reason": f"{reason}: {whys}"[:2000] if whys else f"{reason}.",
    }


def _attempt(opinion: Opinion) -> str | list[dict[str, Any]]:
    messages = opinion.rollout.messages
    start = next((n for n, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    if any(message.get("tool_calls") for message in messages):
        return [dict(as_openai(message)) for message in messages[start:]]
    return opinion.text

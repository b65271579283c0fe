"""A judge's answer read strictly: what is not exactly one number or label of the question is no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rlft.errors import RewardError
from rlft.graders.json_object import read_json_object
from rlft.specification.judge import Answer, Question

_SHOWN = 200  # characters of an answer that an error shows
_LONGEST_REASON = 500  # characters


def read_answer(message: dict[str, Any], question: Question) -> Answer:
    """Return the answer that a message of the judge is. Raises RewardError for a refusal, and for what is none."""
    if refusal := message.get("refusal"):
        raise RewardError(f"the judge refuses: {str(refusal)[:_SHOWN]}")
    text = message.get("content")
    found = read_json_object(text) if isinstance(text, str) else None
    if found is None:
        raise RewardError(f"the judge's answer is no JSON object: {str(text)[:_SHOWN]!r}")
    why = " ".join(str(found.get("why") or "").split())[:_LONGEST_REASON]
    if question.labels:
        if (label := found.get("label")) not in question.labels:
            raise RewardError(f"the judge gave the label {label!r:.60}, which is none of {', '.join(question.labels)}")
        return Answer(label=label, why=why)
    score = found.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not question.least <= score <= question.most:
        raise RewardError(f"the judge gave {score!r:.60}, not a number from {question.least:g} to {question.most:g}")
    return Answer(score=float(score), why=why)


def agreed(votes: Sequence[Answer]) -> Answer:
    """Return the mean of the votes' numbers, or the label that more votes have than any other.

    The reason is that of the first vote which says so, for numbers the one nearest to the mean. Raises RewardError for
    labels with equally many votes.
    """
    labels = Counter(vote.label for vote in votes if vote.label is not None)
    if not labels:
        mean = fmean(vote.score for vote in votes if vote.score is not None)
        nearest = min(votes, key=lambda vote: abs((vote.score or 0.0) - mean))
        return Answer(score=mean, why=nearest.why)
    (label, most), *others = labels.most_common()
    if others and others[0][1] == most:
        raise RewardError(f"the judge's {len(votes)} votes are split between {label} and {others[0][0]}")
    return Answer(label=label, why=next(vote.why for vote in votes if vote.label == label))

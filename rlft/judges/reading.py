"""A judge's answer read strictly: what is not exactly one number or label of the question is no answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rlft.errors import RewardError
from rlft.graders.json_object import read_json_object
from rlft.specification.judge import Answer, Question
from rlft.thinking import CLOSES, part

_FENCED = re.compile(r"```(?:json)?\s*(\{.*\})\s*```", re.DOTALL)
_SHOWN = 200  # characters of an answer that an error shows
_LONGEST_REASON = 500  # characters


def read_answer(message: dict[str, Any], question: Question) -> Answer:
    """Return the answer that a message of the judge is.

    Raises RewardError for a refusal, and for what is none.
    """
    if refusal := message.get("refusal"):
        raise RewardError(f"the judge refuses: {str(refusal)[:_SHOWN]}")
    text = message.get("content")
    found = read_json_object(declared) if isinstance(text, str) and (declared := _declared(text)) else None
    if found is None:
        raise RewardError(f"the judge's answer is not one JSON object and nothing else: {str(text)[:_SHOWN]!r}")
    why = " ".join(str(found.get("why") or "").split())[:_LONGEST_REASON]
    if question.labels:
        if (label := found.get("label")) not in question.labels:
            raise RewardError(f"the judge gave the label {label!r:.60}, which is none of {', '.join(question.labels)}")
        return Answer(label=label, why=why)
    if not question.is_ruler:
        return Answer(score=_number(found.get("score"), question), why=why)
    scores, count = found.get("scores"), len(question.attempts)
    if not isinstance(scores, list) or len(scores) != count:
        raise RewardError(f"the judge gave {scores!r:.60}, not a list with a number for each of {count} attempts")
    return Answer(scores=tuple(_number(each, question) for each in scores), why=why)


def _declared(text: str) -> str | None:
    """Return the object that a message is, without one closed block of thoughts before it and a fence around it.

    Nothing else may stand beside it: a judge that declines in words may quote an attempt which holds such an object.
    """
    if len(CLOSES.findall(text)) > 1:  # nobody can tell which end is that of the judge's own thoughts
        return None
    text = part(text).answer.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    return text if text.startswith("{") and text.endswith("}") else None


def _number(given: Any, question: Question) -> float:
    """Return a number within the range of a question. Raises RewardError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not question.least <= given <= question.most:
        raise RewardError(f"the judge gave {given!r:.60}, not a number from {question.least:g} to {question.most:g}")
    return float(given)


def agreed(votes: Sequence[Answer]) -> Answer:
    """Return the mean of the votes' numbers, of each attempt or in all, or the label that most votes have.

    The reason is that of the first vote which says so, for numbers the one nearest to the mean. Raises RewardError for
    labels with equally many votes.
    """
    rows = [vote.scores for vote in votes if vote.scores is not None]
    if rows:
        return Answer(scores=tuple(fmean(column) for column in zip(*rows, strict=True)), why=votes[0].why)
    labels = Counter(vote.label for vote in votes if vote.label is not None)
    if not labels:
        mean = fmean(vote.score for vote in votes if vote.score is not None)
        nearest = min(votes, key=lambda vote: abs((vote.score or 0.0) - mean))
        return Answer(score=mean, why=nearest.why)
    (label, most), *others = labels.most_common()
    if others and others[0][1] == most:
        raise RewardError(f"the judge's {len(votes)} votes are split between {label} and {others[0][0]}")
    return Answer(label=label, why=next(vote.why for vote in votes if vote.label == label))

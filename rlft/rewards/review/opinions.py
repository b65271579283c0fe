"""What one person said of one attempt, and what that becomes, in the forms in which rlft reads it again.

These are right answers as rows of tasks, cases of a specification, and pairs to learn from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from rlft.messages import as_openai
from rlft.types import Reward, Rollout, Task
from rlft.types.thinking import answer_of


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a person said of an attempt at a task: what it deserves, and what would have been right.

    `deserved` is a share of the full reward, from 0 (nothing) to 1 (all of it); `answer` the right answer. What was not
    said is `None`. `full` is the highest total that the reward can give, that of its `environment` where the run has
    several; else that name is empty.
    """

    person: str
    task: Task
    rollout: Rollout
    reward: Reward
    full: float
    deserved: float | None = None
    answer: str | None = None
    why: str = ""
    environment: str = ""

    @property
    def text(self) -> str:
        """What the attempt answered in its last message by the model."""
        return answer_of(self.rollout.messages)

    @property
    def prompt(self) -> str:
        """The task's text."""
        return self.task.text


def deserving(opinions: Iterable[Opinion]) -> list[tuple[list[Opinion], float]]:
    """Return the opinions of each attempt that say what it deserves, with their mean, by the ids of the rollouts."""
    said = dict[str, list[Opinion]]()
    for opinion in opinions:
        if opinion.deserved is not None:
            said.setdefault(opinion.rollout.rollout_id, []).append(opinion)
    return [(found, fmean(each.deserved or 0.0 for each in found)) for _, found in sorted(said.items())]


def by_environment(opinions: Iterable[Opinion]) -> dict[str, list[Opinion]]:
    """Return the opinions on attempts in each of several environments by its name; all under no name else."""
    found = dict[str, list[Opinion]]()
    for opinion in opinions:
        found.setdefault(opinion.environment, []).append(opinion)
    return dict(sorted(found.items())) or {"": []}


def golds(opinions: Iterable[Opinion]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each task whose answer people gave: `id`, `prompt`, `answer`, and `was`, what it is in the data.

    Of several answers the most frequent one counts; where it is the one in the data there is no row. Also returns the
    ids of tasks without a row, since as many people gave one answer as another.
    """
    said, tasks = dict[str, Counter[str]](), {}
    for opinion in opinions:
        if opinion.answer is not None and (answer := opinion.answer.strip()):
            said.setdefault(opinion.task.id, Counter())[answer] += 1
            tasks[opinion.task.id] = opinion.task
    rows, split = list[dict[str, Any]](), list[str]()
    for task_id, answers in sorted(said.items()):
        (answer, most), *others = answers.most_common()
        if others and others[0][1] == most:
            split.append(task_id)
            continue
        task = tasks[task_id]
        if answer == str(task.answer).strip():
            continue
        rows.append({"id": task_id, "prompt": task.text, "answer": answer, "was": task.answer, "people": most})
    return rows, split


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


APART = 0.2
"""Attempts that deserve less than this share of the reward more than one another are no pair."""


def preferences(opinions: Iterable[Opinion]) -> list[dict[str, Any]]:
    """Return pairs of attempts at one task, the better one first, in the form that `training.algorithm: dpo` reads."""
    means = [(found[0], mean) for found, mean in deserving(opinions)]
    return [
        _pair(one, other) if more > less else _pair(other, one)
        for (one, more), (other, less) in combinations(means, 2)
        if one.task.id == other.task.id and one.text != other.text and abs(more - less) >= APART
    ]


def _pair(better: Opinion, worse: Opinion) -> dict[str, Any]:
    return {"prompt": better.prompt, "chosen": better.text, "rejected": worse.text}

"""What people look at of a round, and what their words become.

The highest-paid attempts are chosen, as where a reward goes wrong it shows among these first, and random ones. Attempts
of several environments are compared by the share of a full reward that they are paid. What people say becomes right
answers as rows of tasks, cases of a specification, and pairs to learn from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from rlft.messages import as_openai
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task
from rlft.types.thinking import answer_of


def full_totals(rewards: Rewards) -> dict[str, float]:
    """Return {environment: its highest total}; the name is empty where there is one.

    It is what the environment declares, else the highest total that any of its attempts has got, or 1 where that is no
    more than 0.
    """
    declared = {name: _declared(rewards, name) for name in rewards.members or ("",)}
    return {name: full or _highest(rewards, name) for name, full in declared.items()}


def share_of(reward: Reward, full: dict[str, float], rewards: Rewards) -> float:
    """Return which share of the full reward an attempt is paid; 0 without a score."""
    return (reward.total or 0.0) / full[rewards.member_of(reward)]


def _declared(rewards: Rewards, name: str) -> float | None:
    _, high = rewards.ranges.get(f"reward/{name}" if name else "reward", (0.0, 0.0))
    return high if high > 0 else None


def _highest(rewards: Rewards, name: str) -> float:
    totals = [each.total for each in rewards if each.total is not None and rewards.member_of(each) == name]
    return highest if (highest := max(totals, default=0.0)) > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """An attempt that people are asked about, with its reward, and why it was chosen."""

    rollout: Rollout
    reward: Reward
    reason: Literal["highest", "random"]


def choose(rollouts: Rollouts, rewards: Rewards, *, highest: int, random: int) -> list[Chosen]:
    """Return attempts that have a score: the highest-paid, then random ones, each once.

    Of attempts at one task that say the same one is taken. What is paid counts as a share of the environment's full
    reward, as a run may have several. The choice depends on the rewards and the ids of the rollouts alone, so that it
    is the same whenever it is made.
    """
    scored = {reward.rollout_id: reward for reward in rewards if reward.total is not None}
    by_chance = sorted((each for each in rollouts if each.rollout_id in scored), key=_draw)
    once = {(each.task_id, said_in(each)): each for each in reversed(by_chance)}
    left = sorted(once.values(), key=_draw)
    full = full_totals(rewards)
    shares = {name: share_of(reward, full, rewards) for name, reward in scored.items()}
    best = sorted(left, key=lambda each: -shares[each.rollout_id])[:highest]
    taken = {each.rollout_id for each in best}
    others = [each for each in left if each.rollout_id not in taken][:random]
    return [
        *(Chosen(each, scored[each.rollout_id], "highest") for each in best),
        *(Chosen(each, scored[each.rollout_id], "random") for each in others),
    ]


def said_in(rollout: Rollout) -> str:
    """Return what stands after the prompt, all calls included."""
    roles = [message["role"] for message in rollout.messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    return repr(rollout.messages[first:])


def _draw(rollout: Rollout) -> str:
    """Return a number of chance that belongs to the rollout."""
    return hashlib.sha256(rollout.rollout_id.encode(errors="surrogatepass")).hexdigest()


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

"""Compares two scorings of the same attempts: what another reward would have said of them, group by group.

Another reward says nothing of other prompts, so stored attempts must answer what the environment asks now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.errors import RlftError
from rlft.evaluation.statistics import varies
from rlft.rewards.rubric import TOLERANCE
from rlft.types import Report, Reward, Rewards, Rollout, Rollouts, Task

Means = dict[str, tuple[float, int]]
"""{metric: (mean, how many attempts it is of)}."""
KEPT, REVERSED, TIED, PARTED = "kept", "reversed", "tied", "parted"  # what becomes of the order of two attempts
MOST_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Reordered:
    """A group whose attempts are in another order: (rollout id, total before, total after) of each, in stored order.

    `changed` counts the pairs of attempts whose order is another one.
    """

    task_id: str
    attempts: tuple[tuple[str, float, float], ...]
    changed: int


@dataclass(frozen=True, slots=True)
class RescoreReport(Report):
    """What another reward makes of a set of attempts, which are in groups by their task.

    `before` and `after` are the means of `reward`, `accuracy` and each `rewards/<part>`, over all attempts with a score
    of that reward; `errored_before` and `errored_after` count those without. What follows is of the attempts that
    both have scored. `pairs` counts the pairs of attempts at one task: the order is `kept` (that of equals included),
    `reversed`, `tied` by the new reward, or `parted` by it. `reordered` counts the `groups` in which some order is
    another one, `new_best` those in which no attempt that was best still is. `varying_before` and `varying_after` are
    the groups whose rewards differ, which alone have advantages; `flipped` counts the attempts whose advantage has the
    other sign. `examples` are the groups with the most changed pairs.
    """

    attempts: int
    before: Means
    after: Means
    errored_before: int
    errored_after: int
    groups: int
    pairs: dict[str, int]
    reordered: int
    new_best: int
    varying_before: int
    varying_after: int
    flipped: int
    examples: tuple[Reordered, ...] = ()


def compare_rewards(before: Rewards, after: Rewards) -> RescoreReport:
    """Return what the scores `after` change in those `before`, over the attempts that `after` has."""
    kept = {reward.rollout_id for reward in after}
    was = {reward.rollout_id: reward for reward in before if reward.rollout_id in kept}
    groups: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for reward in after:
        old = was.get(reward.rollout_id)
        if old is not None and old.total is not None and reward.total is not None:
            groups[reward.task_id].append((reward.rollout_id, old.total, reward.total))
    found = {task: _pairs(attempts) for task, attempts in groups.items()}
    changed = {task: sum(pairs.values()) - pairs[KEPT] for task, pairs in found.items()}
    worst = sorted((task for task in groups if changed[task]), key=lambda task: (-changed[task], task))
    sides = [[list(side) for side in zip(*attempts, strict=True)][1:] for attempts in groups.values()]
    return RescoreReport(
        attempts=len(after),
        before=_means(list(was.values())),
        after=_means(after.rows),
        errored_before=sum(reward.total is None for reward in was.values()),
        errored_after=sum(reward.total is None for reward in after),
        groups=len(groups),
        pairs={kind: sum(pairs[kind] for pairs in found.values()) for kind in (KEPT, REVERSED, TIED, PARTED)},
        reordered=len(worst),
        new_best=sum(not _best(old) & _best(new) for old, new in sides),
        varying_before=sum(varies(old) for old, _ in sides),
        varying_after=sum(varies(new) for _, new in sides),
        flipped=sum(_flipped(old, new) for old, new in sides),
        examples=tuple(Reordered(task, tuple(groups[task]), changed[task]) for task in worst[:MOST_EXAMPLES]),
    )


def add_up(reports: Sequence[RescoreReport]) -> RescoreReport:
    """Return the sums of reports on different attempts, with means over all of them. Groups of different ones differ.

    The examples are those with the most changed pairs. Raises ValueError without reports.
    """
    if not reports:
        raise ValueError("no report can be added up")
    counts = ("attempts", "errored_before", "errored_after", "groups", "reordered", "new_best")
    counts += ("varying_before", "varying_after", "flipped")
    examples = sorted((each for report in reports for each in report.examples), key=lambda each: -each.changed)
    return RescoreReport(
        before=_pooled([report.before for report in reports]),
        after=_pooled([report.after for report in reports]),
        pairs={kind: sum(report.pairs[kind] for report in reports) for kind in (KEPT, REVERSED, TIED, PARTED)},
        examples=tuple(examples[:MOST_EXAMPLES]),
        **{name: sum(getattr(report, name) for report in reports) for name in counts},
    )


def _means(rows: Sequence[Reward]) -> Means:
    scores: dict[str, list[float]] = defaultdict(list)
    for reward in rows:
        if reward.total is None:
            continue
        scores["reward"].append(reward.total)
        scores["accuracy"].append(float(reward.solved))
        for part, score in reward.parts.items():
            if score is not None:
                scores[f"rewards/{part}"].append(score)
    return {name: (fmean(values), len(values)) for name, values in scores.items()}


def _pooled(means: Sequence[Mapping[str, tuple[float, int]]]) -> Means:
    names = dict.fromkeys(name for each in means for name in each)
    found = {name: [each[name] for each in means if name in each] for name in names}
    sizes = {name: sum(count for _, count in each) for name, each in found.items()}
    return {
        name: (sum(mean * count for mean, count in each) / sizes[name], sizes[name]) for name, each in found.items()
    }


def _pairs(attempts: Sequence[tuple[str, float, float]]) -> Counter[str]:
    """Count what becomes of the order of each two attempts."""
    return Counter(
        _what_becomes(_order(one[1], other[1]), _order(one[2], other[2])) for one, other in combinations(attempts, 2)
    )


def _what_becomes(before: int, after: int) -> str:
    if before == after:
        return KEPT
    if not after:
        return TIED
    return REVERSED if before else PARTED


def _order(one: float, other: float) -> int:
    """Return 1 or -1 by which is larger, 0 if they differ by rounding alone."""
    apart = one - other
    return 0 if abs(apart) <= TOLERANCE * max(1.0, abs(one), abs(other)) else (1 if apart > 0 else -1)


def _best(totals: Sequence[float]) -> set[int]:
    """Return the places of the highest totals."""
    highest = max(totals)
    return {place for place, total in enumerate(totals) if not _order(highest, total)}


def _flipped(before: Sequence[float], after: Sequence[float]) -> int:
    """Count the attempts that were above the mean of their group and are below it now, or the other way round."""
    signs = [[_order(total, fmean(totals)) for total in totals] for totals in (before, after)]
    return sum(one * other < 0 for one, other in zip(*signs, strict=True))


def of_tasks(rollouts: Rollouts, tasks: Mapping[str, Task]) -> Rollouts:
    """Return the rollouts of these tasks alone."""
    return replace(rollouts, rows=tuple(rollout for rollout in rollouts if rollout.task_id in tasks))


def other_prompts(rollouts: Rollouts, tasks: Mapping[str, Task], environment: BaseEnv) -> list[str]:
    """Return the tasks for which the environment gives another prompt than these rollouts begin with, by their ids.

    Raises RlftError if it is another kind of prompt, with messages of other roles: such attempts have no score.
    """
    first: dict[str, Rollout] = {}
    for rollout in rollouts:
        first.setdefault(rollout.task_id, rollout)
    differing = []
    for task_id, rollout in first.items():
        now = [(message["role"], message.get("content")) for message in prompt_messages(tasks[task_id], environment)]
        then = [(message["role"], message.get("content")) for message in rollout.messages[: len(now)]]
        if [role for role, _ in now] != [role for role, _ in then]:
            raise RlftError(
                f"it begins a conversation with {_roles(now)}, and the attempts begin with {_roles(then)} "
                f"(task {task_id})",
                where="environment",
                fix="take the environment of the run, and change its reward alone; other prompts need new attempts",
            )
        if now != then:
            differing.append(task_id)
    return differing


def _roles(messages: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join(role for role, _ in messages) or "nothing"

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


@dataclass(frozen=True, slots=True)
class RescoreReport(Report):
    """What another reward makes of a set of attempts, which are in groups by their task.

    `before` and `after` are the means of `reward`, `accuracy` and each `rewards/<part>`, over all attempts with a score
    of that reward; `errored_before` and `errored_after` count those without. What follows is of the attempts that
    both have scored. `pairs` counts the pairs of attempts at one task: the order is `kept` (that of equals included),
    `reversed`, `tied` by the new reward, or `parted` by it. `reordered` counts the `groups` in which some order is
    another one; `varying_before` and `varying_after` those whose rewards differ, which alone have advantages.
    """

    attempts: int
    before: Means
    after: Means
    errored_before: int
    errored_after: int
    groups: int
    pairs: dict[str, int]
    reordered: int
    varying_before: int
    varying_after: int


def compare_rewards(before: Rewards, after: Rewards) -> RescoreReport:
    """Return what the scores `after` change in those `before`, over the attempts that `after` has."""
    kept = {reward.rollout_id for reward in after}
    was = {reward.rollout_id: reward for reward in before if reward.rollout_id in kept}
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for reward in after:
        old = was.get(reward.rollout_id)
        if old is not None and old.total is not None and reward.total is not None:
            groups[reward.task_id].append((old.total, reward.total))
    found = [_pairs(totals) for totals in groups.values()]
    return RescoreReport(
        attempts=len(after),
        before=_means(list(was.values())),
        after=_means(after.rows),
        errored_before=sum(reward.total is None for reward in was.values()),
        errored_after=sum(reward.total is None for reward in after),
        groups=len(groups),
        pairs={kind: sum(pairs[kind] for pairs in found) for kind in (KEPT, REVERSED, TIED, PARTED)},
        reordered=sum(pairs.total() > pairs[KEPT] for pairs in found),
        varying_before=sum(varies([old for old, _ in totals]) for totals in groups.values()),
        varying_after=sum(varies([new for _, new in totals]) for totals in groups.values()),
    )


def add_up(reports: Sequence[RescoreReport]) -> RescoreReport:
    """Return the sums of reports on different attempts, with means over all of them. Groups of different ones differ.

    Raises ValueError without reports.
    """
    if not reports:
        raise ValueError("no report can be added up")
    counts = ("attempts", "errored_before", "errored_after", "groups", "reordered", "varying_before", "varying_after")
    return RescoreReport(
        before=_pooled([report.before for report in reports]),
        after=_pooled([report.after for report in reports]),
        pairs={kind: sum(report.pairs[kind] for report in reports) for kind in (KEPT, REVERSED, TIED, PARTED)},
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


def _pairs(totals: Sequence[tuple[float, float]]) -> Counter[str]:
    """Count what becomes of the order of each two attempts, of which these are the totals before and after."""
    return Counter(
        _what_becomes(_order(one[0], other[0]), _order(one[1], other[1])) for one, other in combinations(totals, 2)
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

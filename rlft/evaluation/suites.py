"""Measures the attempts of one model at one cell of a suite, and compares two models of one call.

The metrics are means over tasks with intervals, in all and by slice.

A task counts once, however many attempts it has, and the spread between groups of tasks makes the interval
(`statistics`). Attempts without a score say nothing about the model and are left out, but they are counted, and
`pass_at_k` and `maj_at_k`, which are of every task that was tried, are bounded by what they could have been.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean

from rlft.evaluation.comparison import compare, range_of
from rlft.evaluation.evaluate import evaluate_rollouts, majority_solved
from rlft.evaluation.metrics import pair
from rlft.evaluation.slices import slices_of
from rlft.evaluation.statistics import SHARE, Range, mean_interval, pass_at_k
from rlft.types import Evaluation, Interval, Report, Reward, Rewards, Rollout, Rollouts, TaskSet, add_judging


def measures_of(rollout: Rollout, reward: Reward) -> dict[str, float]:
    """Return numbers about one attempt that did not fail.

    - `completion_length`: tokens after the prompt, told ones included; `sampled_tokens`: those that the model sampled;
      `prompt_tokens`. All three are missing of a model behind an address, whose tokens nobody knows.
    - `clipped`: 1 if a limit cut it off, else 0
    - `turns`, `tool_calls`, `tool_failures`: counts; `tool_failures` are calls that failed or could not be read
    - `seconds`: wall time of the conversation; `score_seconds`: that of scoring it
    """
    found = {
        "clipped": float(rollout.truncated),
        "turns": float(rollout.turns),
        "tool_calls": float(rollout.tool_calls),
        "tool_failures": float(rollout.tool_errors),
        "seconds": rollout.seconds,
        "score_seconds": reward.seconds,
    }
    if len(rollout.token_ids):
        found["completion_length"] = float(rollout.completion_length)
        found["sampled_tokens"] = float(rollout.loss_mask.sum())
        found["prompt_tokens"] = float(rollout.prompt_length)
    return found


Metrics = dict[str, Interval]


@dataclass(frozen=True, slots=True)
class SplitMeasures:
    """The metrics of one split: in all, and by slice as {column: {value: metrics}}.

    `tasks` and `attempts` are counts, `errors` counts the attempts without a score, by the kind of what failed, and
    `num_samples` is the number of attempts at a task.
    """

    metrics: Metrics
    slices: dict[str, dict[str, Metrics]]
    tasks: int
    attempts: int
    num_samples: int
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellMeasures(Report):
    """The measures of one model on one cell by split; `totals` are what the engine or endpoint measured of all."""

    policy: str
    splits: dict[str, SplitMeasures]
    totals: dict[str, float]
    seconds: float = 0.0


def evaluate_cell(
    rollouts: Rollouts, rewards: Rewards, tasks: TaskSet, slices: Sequence[str], flops: float | None
) -> tuple[Evaluation, CellMeasures]:
    """Return the evaluation, which `comparison` compares, and all that is measured beside it.

    `slices` are columns of the tasks. The metrics are those of `evaluate_rollouts`; `pass_at_1` to `pass_at_n` for n
    attempts, the unbiased estimate; `maj_at_k`; `errored`, the share of attempts without a score; and the means of
    `measures_of`. Raises ValueError if rewards belong to other rollouts.
    """
    reports = evaluate_rollouts(rollouts, rewards, tasks)
    by_id = tasks.by_id()
    attempts: dict[str, list[tuple[Rollout, Reward]]] = defaultdict(list)
    for rollout, reward in pair(rollouts, rewards):
        attempts[by_id[rollout.task_id].split].append((rollout, reward))
    measured = {}
    for split, report in reports.items():
        ends = report.ranges
        tried = [by_id[task] for task in report.groups]
        found = slices_of(tried, slices)
        measured[split] = SplitMeasures(
            metrics=_metrics(attempts[split], report.groups, report.num_samples, ends),
            slices={
                column: {
                    value: _metrics(_within(attempts[split], ids), report.groups, report.num_samples, ends)
                    for value, ids in values.items()
                }
                for column, values in found.items()
            },
            tasks=len(report.groups),
            attempts=len(attempts[split]),
            num_samples=report.num_samples,
            errors=_errors(attempts[split]),
        )
    seconds = rollouts.seconds + rewards.seconds
    policy = rollouts.rows[0].policy if rollouts.rows else ""
    totals = {name: value for name, value in rollouts.metrics.items() if not name.startswith("perf/")}
    judging = add_judging(reward.judging for reward in rewards)
    return Evaluation(reports, seconds, flops, judging), CellMeasures(policy, measured, totals, seconds)


def _within(attempts: Sequence[tuple[Rollout, Reward]], ids: Collection[str]) -> list[tuple[Rollout, Reward]]:
    return [each for each in attempts if each[0].task_id in ids]


def is_scored(rollout: Rollout, reward: Reward) -> bool:
    """Return whether an attempt has a score."""
    return rollout.error is None and reward.total is not None


def _errors(attempts: Sequence[tuple[Rollout, Reward]]) -> dict[str, int]:
    """Return how many attempts have no score, by where that failed (`engine`, `compute_reward`, ...)."""
    counts: dict[str, int] = {}
    for rollout, reward in attempts:
        if not is_scored(rollout, reward):
            failure = rollout.error or reward.error
            where = failure.origin.where if failure else ""
            counts[where or "unknown"] = counts.get(where or "unknown", 0) + 1
    return dict(sorted(counts.items()))


def _metrics(
    attempts: Sequence[tuple[Rollout, Reward]],
    groups: Mapping[str, str],
    n: int,
    ranges: Mapping[str, tuple[float, float]],
) -> Metrics:
    scored: dict[str, list[tuple[Rollout, Reward]]] = defaultdict(list)
    tried: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    for rollout, reward in attempts:
        tried[rollout.task_id] += 1
        if is_scored(rollout, reward):
            scored[rollout.task_id].append((rollout, reward))
        else:
            failed[rollout.task_id] += 1
    values = _per_attempt(scored)
    found = {
        name: mean_interval(means, groups, _range(name, ranges)) for name, means in sorted(values.items()) if means
    }
    if tried:
        found["errored"] = mean_interval({task: failed[task] / count for task, count in tried.items()}, groups, SHARE)
    if scored:
        found["avg_at_k"] = found["accuracy"]
        found |= _pass_and_majority(scored, failed, groups, n)
    return found


def _range(name: str, ranges: Mapping[str, tuple[float, float]]) -> Range | None:
    return SHARE if name == "clipped" else range_of(name, ranges)


def _per_attempt(scored: Mapping[str, list[tuple[Rollout, Reward]]]) -> dict[str, dict[str, float]]:
    """Return {metric: {task: mean over its attempts}}; a task without the metric is left out of it."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for task, attempts in scored.items():
        for rollout, reward in attempts:
            parts = {f"rewards/{part}": score for part, score in reward.parts.items()}
            own = {"accuracy": float(reward.solved), "reward": reward.total, **parts, **measures_of(rollout, reward)}
            for name, value in own.items():
                if value is not None:
                    found[name][task].append(value)
    return {name: {task: fmean(values) for task, values in tasks.items()} for name, tasks in found.items()}


def _pass_and_majority(
    scored: Mapping[str, list[tuple[Rollout, Reward]]], failed: Mapping[str, int], groups: Mapping[str, str], n: int
) -> Metrics:
    """Return `pass_at_1` to `pass_at_n`, `pass_at_k` (k = n) and `maj_at_k`, each over all tasks that were tried.

    A mean counts attempts without a score as unsolved and without an answer, as one who samples k times gets nothing
    from them. The upper end of its interval is the one with them solved, since what fails is not known to be wrong. The
    lower end of `maj_at_k` is the one with their votes for a wrong answer.
    """
    given = {task: [reward for _, reward in scored.get(task, [])] for task in scored.keys() | failed.keys()}
    solved = {task: sum(reward.solved for reward in rewards) for task, rewards in given.items()}
    found: Metrics = {}
    for k in range(1, n + 1):
        least = {task: pass_at_k(n, count, k) for task, count in solved.items()}
        most = {task: pass_at_k(n, min(n, count + failed.get(task, 0)), k) for task, count in solved.items()}
        found[f"pass_at_{k}"] = _between(least, least, most, groups)
    found["pass_at_k"] = found[f"pass_at_{n}"]
    majority = {task: float(majority_solved(rewards)) for task, rewards in given.items()}
    turned = {task: _majorities(rewards, failed.get(task, 0)) for task, rewards in given.items()}
    least, most = ({task: float(ends[place]) for task, ends in turned.items()} for place in (0, 1))
    found["maj_at_k"] = _between(majority, least, most, groups)
    return found


def _between(
    shares: Mapping[str, float], least: Mapping[str, float], most: Mapping[str, float], groups: Mapping[str, str]
) -> Interval:
    """Return the mean of {task: share}, with the lower end of the `least` and the upper end of the `most` it may be."""
    found, low, high = (mean_interval(values, groups, SHARE) for values in (shares, least, most))
    return replace(found, low=min(found.low, low.low), high=max(found.high, high.high))


def _majorities(rewards: Sequence[Reward], failed: int) -> tuple[bool, bool]:
    """Return whether the most frequent answer is right whatever the failed attempts say, and whether it may be.

    They may all say one answer, which may be one that no other attempt gave; that decides, or makes a draw, which the
    answer that was seen first wins.
    """
    solved = majority_solved(list(rewards))
    if not failed:
        return solved, solved
    votes = Counter(reward.answer for reward in rewards if reward.answer is not None)
    right = {reward.answer: reward.solved for reward in reversed(rewards)}  # of equal answers the first one counts
    for_right = max((count for answer, count in votes.items() if right[answer]), default=0)
    for_wrong = max((count for answer, count in votes.items() if not right[answer]), default=0)
    return solved and for_wrong + failed < for_right, solved or for_right + failed >= for_wrong


@dataclass(frozen=True, slots=True)
class Pair:
    """`second` minus `first` on one split of a cell, in one metric, with its 95 % interval over groups of tasks.

    `low` and `high` count attempts without a score against and in favour of the second model. `tasks` were scored for
    both, and `errors` counts the attempts of both without a score. All numbers are `None` if no task was scored for
    both.
    """

    cell: str
    split: str
    metric: str
    first: str
    second: str
    before: float | None = None
    after: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    tasks: int = 0
    groups: int = 0
    errors: int = 0

    @property
    def sentence(self) -> str:
        """What the interval says, in one plain sentence."""
        where = f"On {self.cell} ({self.split})"
        if self.mean is None or self.low is None or self.high is None:
            return f"{where} no task has a score for both {self.first} and {self.second}."
        interval = f"95 % interval {self.low:+.3f} to {self.high:+.3f}, {self.tasks} tasks"
        if self.errors:
            interval += f", {self.errors} attempts without a score counted both ways"
        if self.low > 0 or self.high < 0:
            which = "better" if self.low > 0 else "worse"
            return (
                f"{where} {self.second} is {which} than {self.first}: {self.metric} {self.after:.3f} against "
                f"{self.before:.3f}, difference {self.mean:+.3f} ({interval})."
            )
        return (
            f"{where} it cannot be told which of {self.first} and {self.second} is better: {self.metric} "
            f"{self.before:.3f} and {self.after:.3f}, {self.second} minus {self.first} {self.mean:+.3f} ({interval})."
        )


def compare_models(evaluations: Mapping[str, Mapping[str, Evaluation]], metric: str) -> list[Pair]:
    """Return all pairs of models on every split; `evaluations` are {cell: {model: evaluation}}.

    The intervals are those of single comparisons: with many pairs some exclude zero by chance.
    """
    return [
        _pair(cell, split, metric, first, second, models)
        for cell, models in evaluations.items()
        for first, second in combinations(models, 2)
        for split in models[first].splits
        if split in models[second].splits
    ]


def _pair(cell: str, split: str, metric: str, first: str, second: str, models: Mapping[str, Evaluation]) -> Pair:
    ours, theirs = models[second].splits[split], models[first].splits[split]
    both = metric in ours.per_task and metric in theirs.per_task
    found = compare(ours, theirs, metric) if both else None
    if found is None:
        return Pair(cell, split, metric, first, second)
    return Pair(
        cell=cell,
        split=split,
        metric=metric,
        first=first,
        second=second,
        before=found.before,
        after=found.after,
        mean=found.difference.mean,
        low=found.low_with_errors,
        high=found.high_with_errors,
        tasks=found.difference.count,
        groups=found.difference.groups,
        errors=found.errors,
    )

"""Measures the attempts of one model at one cell of a suite, and compares two models of one call.

The metrics are those of a run (`evaluate_rollouts`): means over tasks with intervals, in all and by slice. Beside them
stand lengths, turns and times, and by how many attempts tasks are solved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from rlft.evaluation.comparison import Comparison, compare
from rlft.evaluation.evaluate import evaluate_rollouts, is_scored
from rlft.evaluation.metrics import pair
from rlft.evaluation.slices import slices_of
from rlft.evaluation.statistics import SHARE, mean_interval, pass_at_k
from rlft.types import (
    Evaluation,
    EvaluationReport,
    Interval,
    Report,
    Reward,
    Rewards,
    Rollout,
    Rollouts,
    TaskSet,
    add_judging,
)

Attempts = Sequence[tuple[Rollout, Reward]]


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
    attempts, the unbiased estimate; `errored`, the share of attempts without a score; and the means of `measures_of`.
    Raises ValueError if rewards belong to other rollouts.
    """
    reports, by_id = evaluate_rollouts(rollouts, rewards, tasks), tasks.by_id()
    attempts: dict[str, list[tuple[Rollout, Reward]]] = defaultdict(list)
    for rollout, reward in pair(rollouts, rewards):
        attempts[by_id[rollout.task_id].split].append((rollout, reward))

    def within(made: Attempts, ids: frozenset[str]) -> Metrics:
        kept = [each for each in made if each[0].task_id in ids]
        rows, scores = replace(rollouts, rows=tuple(one for one, _ in kept)), tuple(reward for _, reward in kept)
        (report,) = evaluate_rollouts(rows, replace(rewards, rows=scores), tasks).values()
        return _metrics(report, kept)

    measured = {
        split: SplitMeasures(
            metrics=_metrics(report, attempts[split]),
            slices={
                column: {value: within(attempts[split], ids) for value, ids in values.items()}
                for column, values in slices_of([by_id[task] for task in report.groups], slices).items()
            },
            tasks=len(report.groups),
            attempts=len(attempts[split]),
            num_samples=report.num_samples,
            errors=_errors(attempts[split]),
        )
        for split, report in reports.items()
    }
    seconds = rollouts.seconds + rewards.seconds
    policy = rollouts.rows[0].policy if rollouts.rows else ""
    totals = {name: value for name, value in rollouts.metrics.items() if not name.startswith("perf/")}
    judging = add_judging(reward.judging for reward in rewards)
    return Evaluation(reports, seconds, flops, judging), CellMeasures(policy, measured, totals, seconds)


def _errors(attempts: Attempts) -> dict[str, int]:
    """Return how many attempts have no score, by where that failed (`engine`, `compute_reward`, ...)."""
    failures = [rollout.error or reward.error for rollout, reward in attempts if not is_scored(rollout, reward)]
    counts = Counter((failure.origin.where if failure else "") or "unknown" for failure in failures)
    return dict(sorted(counts.items()))


def _metrics(report: EvaluationReport, attempts: Attempts) -> Metrics:
    """Return the metrics of a report on these attempts, and the means of what else is measured of each."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rollout, reward in attempts:
        known, task = is_scored(rollout, reward), rollout.task_id
        values["errored"][task].append(float(not known))
        if known:
            for name, value in measures_of(rollout, reward).items():
                values[name][task].append(value)
    found = report.metrics | {
        name: mean_interval(
            {task: fmean(each) for task, each in tasks.items()},
            report.groups,
            SHARE if name in ("errored", "clipped") else None,
        )
        for name, tasks in values.items()
    }
    solved: dict[str, list[bool]] = defaultdict(list)
    for rollout, reward in attempts:
        if is_scored(rollout, reward):
            solved[rollout.task_id].append(reward.solved)
    for k in range(1, report.num_samples + 1) if solved else ():
        chances = {task: pass_at_k(len(each), sum(each), min(k, len(each))) for task, each in solved.items()}
        found[f"pass_at_{k}"] = mean_interval(chances, report.groups, SHARE)
    return found


@dataclass(frozen=True, slots=True)
class Pair:
    """`second` minus `first` on one split of a cell in a metric; `found` is `None` if no task was scored for both."""

    cell: str
    split: str
    metric: str
    first: str
    second: str
    found: Comparison | None

    def as_json(self) -> dict[str, Any]:
        """Return the models, their means over `tasks` and the difference; all numbers are null if it is not known.

        `low` and `high` are the ends of its 95 % interval over groups of tasks, with attempts without a score, of which
        there are `errors`, counted against and in favour of the second model.
        """
        unknown = dict.fromkeys(("before", "after", "mean", "low", "high")) | {"tasks": 0, "groups": 0, "errors": 0}
        numbers = unknown if self.found is None else self.found.as_json()
        models = {name: getattr(self, name) for name in ("cell", "split", "metric", "first", "second")}
        return {**models, **numbers, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """What the interval says, in one plain sentence."""
        where, found = f"On {self.cell} ({self.split})", self.found
        if found is None:
            return f"{where} no task has a score for both {self.first} and {self.second}."
        low, high, mean = found.low_with_errors, found.high_with_errors, found.difference.mean
        interval = f"95 % interval {low:+.3f} to {high:+.3f}, {found.difference.count} tasks"
        if found.errors:
            interval += f", {found.errors} attempts without a score counted both ways"
        if low > 0 or high < 0:
            which = "better" if low > 0 else "worse"
            return (
                f"{where} {self.second} is {which} than {self.first}: {self.metric} {found.after:.3f} against "
                f"{found.before:.3f}, difference {mean:+.3f} ({interval})."
            )
        return (
            f"{where} it cannot be told which of {self.first} and {self.second} is better: {self.metric} "
            f"{found.before:.3f} and {found.after:.3f}, {self.second} minus {self.first} {mean:+.3f} ({interval})."
        )


def compare_models(evaluations: Mapping[str, Mapping[str, Evaluation]], metric: str) -> list[Pair]:
    """Return all pairs of models on every split; `evaluations` are {cell: {model: evaluation}}.

    The intervals are those of single comparisons: with many pairs some exclude zero by chance.
    """
    pairs = []
    for cell, models in evaluations.items():
        for first, second in combinations(models, 2):
            theirs, ours = models[first].splits, models[second].splits
            for split in (each for each in theirs if each in ours):
                both = metric in ours[split].per_task and metric in theirs[split].per_task
                found = compare(ours[split], theirs[split], metric) if both else None
                pairs.append(Pair(cell, split, metric, first, second, found))
    return pairs

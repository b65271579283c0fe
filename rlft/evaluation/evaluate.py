"""Evaluates a policy on held-out tasks: metrics over tasks with intervals, and the verdict before training.

A task counts once, however many samples it has. Rollouts that failed, or whose score failed, are left out and
counted as `errored`: an infrastructure error says nothing about the policy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

import numpy as np

from rlft.errors import RlftError
from rlft.evaluation.comparison import guarded_mean, range_of
from rlft.evaluation.metrics import ENVIRONMENTS, pair
from rlft.evaluation.statistics import mean_interval, varies
from rlft.evaluation.variety import answers_given, right_answers, solved_answers
from rlft.types import EvaluationReport, Reward, Rewards, Rollout, Rollouts, Task, TaskSet

Verdict = Literal["trainable", "too_hard", "already_solved"]
_EXPLAINED = 0.9  # parts that are paid little beside the one that is right or wrong do not make a reward graded


def evaluate_rollouts(rollouts: Rollouts, rewards: Rewards, tasks: TaskSet) -> dict[str, EvaluationReport]:
    """Return {split: report} for each split that has rollouts of `tasks`.

    The metrics, each a mean over tasks with its interval, are `accuracy` and `avg_at_k` (share of samples solved),
    `reward`, `rewards/<part>`, `pass_at_k` (any of the k samples solved, which is the unbiased estimate for k = n) and
    `maj_at_k` (see `majority_solved`); of several environments also `environments/<name>/accuracy` and `/reward`, each
    over the tasks of one. `errored` counts rollouts.

    Raises ValueError if rewards belong to other rollouts, or if a rollout's task is not among `tasks`.
    """
    by_id = tasks.by_id()
    attempts: dict[str, list[tuple[Rollout, Reward]]] = defaultdict(list)
    for rollout, reward in pair(rollouts, rewards):
        if rollout.task_id not in by_id:
            raise ValueError(f"task {rollout.task_id} has no split: evaluate with the task set it was sampled from")
        attempts[by_id[rollout.task_id].split].append((rollout, reward))
    return {split: _report(split, made, by_id, rewards) for split, made in attempts.items()}


def majority_solved(samples: list[Reward]) -> bool:
    """Return whether the most frequent answer of a task's samples is right.

    Of equally frequent answers the one seen first wins. No answer (`None`) wins only when no sample has one, and is
    never right. Samples with the same answer can differ in `solved` where the reward looks at more than the answer:
    the first of them counts.
    """
    votes = Counter(sample.answer for sample in samples if sample.answer is not None)
    if not votes:
        return False
    winner = votes.most_common(1)[0][0]
    return next(sample.solved for sample in samples if sample.answer == winner)


def per_task_scores(tasks: Mapping[str, list[Reward]]) -> dict[str, dict[str, float]]:
    """Return {metric: {task id: mean over its samples}}; a task that never had a part is left out of that part."""
    scores: dict[str, dict[str, float]] = {
        "accuracy": {task: _mean([float(s.solved) for s in samples]) for task, samples in tasks.items()},
        "reward": {task: _mean([s.total for s in samples if s.total is not None]) for task, samples in tasks.items()},
    }
    parts = dict.fromkeys(part for samples in tasks.values() for sample in samples for part in sample.parts)
    for part in parts:
        applied = {
            task: [score for s in samples if (score := s.parts.get(part)) is not None]
            for task, samples in tasks.items()
        }
        scores[f"rewards/{part}"] = {task: _mean(values) for task, values in applied.items() if values}
    return scores


def _report(
    split: str, attempts: Sequence[tuple[Rollout, Reward]], by_id: Mapping[str, Task], rewards: Rewards
) -> EvaluationReport:
    sizes = Counter(rollout.task_id for rollout, _ in attempts)
    scored = [each for each in attempts if is_scored(*each)]
    errors = sizes - Counter(rollout.task_id for rollout, _ in scored)
    tasks: dict[str, list[Reward]] = defaultdict(list)
    for rollout, reward in scored:
        tasks[rollout.task_id].append(reward)
    groups = {task: by_id[task].group for task in sorted(sizes)}
    environments = {task: by_id[task].environment for task in groups} if rewards.members else {}
    per_task = per_task_scores(tasks)
    extremes = _extremes(tasks)
    known = {  # declared ranges, with what scores go beyond them by rounding
        name: (min(ends[0], extremes[name][0]), max(ends[1], extremes[name][1]))
        for name, ends in rewards.ranges.items()
        if name in extremes
    }
    over_tasks = {
        **per_task,
        "avg_at_k": per_task["accuracy"],
        "pass_at_k": {task: float(any(s.solved for s in samples)) for task, samples in tasks.items()},
        "maj_at_k": {task: float(majority_solved(samples)) for task, samples in tasks.items()},
        **_by_environment(per_task, environments),
    }
    totals = [[each.total for each in samples if each.total is not None] for samples in tasks.values()]
    given, frequent = answers_given(scored)
    return EvaluationReport(
        split=split,
        policy=attempts[0][0].policy,
        num_samples=max(sizes.values()),
        metrics={
            name: mean_interval(values, groups, range_of(_in_all(name), known))
            for name, values in over_tasks.items()
            if values
        },
        per_task=per_task,
        errored=errors.total(),
        frac_tasks_with_variance=fmean(float(varies(each)) for each in totals) if totals else 0.0,
        groups=groups,
        errors=dict(sorted(errors.items())),
        extremes=extremes,
        ranges=known,
        environments=environments,
        answers=given,
        right_answers=right_answers(by_id[task] for task in groups),
        solved_answers=solved_answers(scored),
        frequent=frequent,
    )


def is_scored(rollout: Rollout, reward: Reward) -> bool:
    """Return whether an attempt, and its score, did not fail."""
    return rollout.error is None and reward.total is not None


def _by_environment(
    per_task: Mapping[str, Mapping[str, float]], environments: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the scores of the tasks of each environment, as metrics of their own."""
    return {
        f"{ENVIRONMENTS}{name}/{metric}": {
            task: x for task, x in per_task[metric].items() if environments[task] == name
        }
        for name in dict.fromkeys(environments.values())
        for metric in ("accuracy", "reward")
    }


def _in_all(metric: str) -> str:
    """Return the metric over all tasks, whose range that of one environment has, too."""
    return metric.rpartition("/")[2] if metric.startswith(ENVIRONMENTS) else metric


def _extremes(tasks: Mapping[str, list[Reward]]) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest reward of a rollout, and those of each part."""
    scores: dict[str, list[float]] = defaultdict(list)
    for reward in (reward for samples in tasks.values() for reward in samples):
        if reward.total is not None:
            scores["reward"].append(reward.total)
        for part, score in reward.parts.items():
            if score is not None:
                scores[f"rewards/{part}"].append(score)
    return {name: (min(values), max(values)) for name, values in scores.items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def baseline_verdict(report: EvaluationReport, already_solved: float) -> Verdict:
    """Return whether training can help.

    It cannot where nothing is ever solved and no rewards differ within a group, or where the avg@k is at least
    `already_solved` (0 to 1). Raises RlftError if all rollouts of the report failed.
    """
    if "avg_at_k" not in report.metrics:
        raise RlftError(
            f"all {report.errored} rollouts of the baseline failed, so nothing is known about the policy",
            where=f"baseline on {report.split}",
            fix="read the rollouts' `error` fields; they name the cause",
        )
    # Neither is said of what failed: errors count as unsolved for the first question and as solved for the second.
    if (guarded_mean(report, "accuracy", "low") or 0.0) >= already_solved:
        return "already_solved"
    if report.frac_tasks_with_variance == 0 and guarded_mean(report, "accuracy", "high") == 0:
        return "too_hard"
    return "trainable"


def compared_by(metric: str, baseline: EvaluationReport) -> str:
    """Return the metric by which models are compared: for `auto` the reward if it is graded, else the accuracy.

    It is if accuracy explains less than `_EXPLAINED` of its variance over the tasks of the baseline.
    """
    if metric != "auto":
        return metric
    paid, solved = baseline.per_task["reward"], baseline.per_task["accuracy"]
    if not varies(list(paid.values())):
        return "accuracy"
    (of_paid, both), (_, of_solved) = np.cov([[paid[task], solved[task]] for task in paid], rowvar=False)
    return "reward" if both**2 <= _EXPLAINED * of_paid * of_solved else "accuracy"


def advice(verdict: Verdict, report: EvaluationReport) -> str:
    """Return the verdict in plain words, with its numbers and what to do."""
    solved, reached = report.metrics["avg_at_k"], report.metrics["pass_at_k"]
    numbers = (
        f"{solved.mean:.1%} of the samples are right ({solved.low:.1%} to {solved.high:.1%}, {solved.count} tasks), "
        f"{reached.mean:.1%} of the tasks are solved at least once in {report.num_samples}, and the reward differs "
        f"within {report.frac_tasks_with_variance:.1%} of the groups"
    )
    if verdict == "already_solved":
        return (
            f"Already solved: {numbers}. Training has nothing to gain; take harder tasks, or use the policy as it is."
        )
    if verdict == "too_hard":
        return (
            f"Too hard: {numbers}. Training learns from differences within a group, and there are none. Take a "
            "stronger model, a warm start on (more) demonstrations, easier tasks, a reward with parts that can be "
            "reached, or more samples per task. A model without a chat template is not told of tools."
        )
    if report.frac_tasks_with_variance == 0:
        return (
            f"Trainable in principle: {numbers}. But as sampled now no group has anything to teach: raise "
            "num_generations or the temperature, or add tasks of middling difficulty."
        )
    return f"Trainable: {numbers}."


def report_numbers(report: EvaluationReport) -> dict[str, float]:
    """Return all numbers of a report: each metric's mean with its `_low` and `_high`, and what was counted."""
    found = dict[str, float]()
    for metric, interval in report.metrics.items():
        found |= {metric: interval.mean, f"{metric}_low": interval.low, f"{metric}_high": interval.high}
    counts = {"errored": float(report.errored), "answers": float(report.answers)}
    return found | {"frac_tasks_with_variance": report.frac_tasks_with_variance} | counts


def curve_points(report: EvaluationReport, metric: str) -> dict[str, float]:
    """Return what a tracker draws of a report over the rounds, as `eval/{split}/{name}`.

    These are its numbers, but of intervals that of the `metric` alone, by which the best round is chosen.
    """
    ends = {f"{name}{end}" for name in report.metrics if name != metric for end in ("_low", "_high")}
    return {f"eval/{report.split}/{name}": value for name, value in report_numbers(report).items() if name not in ends}

"""Puts runs side by side, as JSON: what `rlft compare` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlops.stored.contrast import HARNESS_CODE, REWARD_CODE, Attempt, StoredRun, attempts_at, prompts_of
from mlops.stored.contrasted_models import (
    Reports,
    by_reward,
    by_sampling,
    of_pairs,
    of_same_weights,
    of_settings,
    of_training,
    seeds_of,
)
from rlft.contrasts import by_seed, differing, match, renamed, same_setting, solved_by_one, why_none
from rlft.errors import RlftError
from rlft.types import EvaluationReport


def make_comparison(runs: Mapping[str, StoredRun], split: str, count: int) -> dict[str, Any]:
    """Return all that is known of runs side by side, as JSON. Raises RlftError if they share no task.

    Tasks have the ids that they have in the first run.
    """
    ids = match({name: run.asked for name, run in runs.items()})
    kept = len(next(iter(ids.values())))
    metric = _metric(runs)
    if not kept:
        what, fix = why_none({name: run.asked for name, run in runs.items()}, split)
        raise RlftError(what, where="RUN", fix=fix)
    reports = {name: renamed(run.report, ids[name]) for name, run in runs.items()}
    unscored = [name for name, report in reports.items() if not report.per_task.get(metric)]
    if unscored:
        raise RlftError(f"{unscored[0]} has no score in {metric} on these tasks", where="RUN", fix="leave it out")
    groups = same_setting({name: _trained_by(run) for name, run in runs.items()})
    return {
        "split": split,
        "metric": metric,
        "metrics": {name: _own_metric(run) for name, run in runs.items()},
        "tasks": kept,
        "left_out": {name: len(run.asked) - kept for name, run in runs.items()},
        "runs": {name: _means(report) for name, report in reports.items()},
        **of_training(runs, reports, ids, metric),
        "settings": differing({name: run.settings for name, run in runs.items()}),
        "code": differing({name: run.code for name, run in runs.items()}),
        "data": differing({name: {"tasks": run.fingerprint} for name, run in runs.items()}),
        "rewards": by_reward(runs),
        "sampled": by_sampling(runs),
        "sampling": differing({name: run.sampling for name, run in runs.items()}),
        "same_weights": of_same_weights(runs),
        "groups": groups,
        "seeds": [len(by_seed(group, seeds_of(runs))) for group in groups],
        "pairs": of_pairs(reports, metric, runs),
        "of_settings": of_settings(groups, reports, metric, runs),
        "solved_by_one": _tasks(runs, reports, ids, count),
    }


def _trained_by(run: StoredRun) -> dict[str, Any]:
    """Return what the weights of a run depend on: its settings, and its tasks and code, which files may change."""
    codes = [run.code.get(each) for each in (REWARD_CODE, HARNESS_CODE)]
    return {**run.settings, "code": codes, "tasks fingerprint": run.fingerprint}


def _own_metric(run: StoredRun) -> str:
    """Return the metric by which a run chose its best round."""
    return str((run.settings.get("evaluation") or {}).get("metric", "accuracy"))


def _metric(runs: Mapping[str, StoredRun]) -> str:
    """Return the metric of the first run, if all reports have it. All have `accuracy`."""
    metric = _own_metric(next(iter(runs.values())))
    return metric if all(metric in run.report.per_task for run in runs.values()) else "accuracy"


def _means(report: EvaluationReport) -> dict[str, float]:
    return {name: sum(scores.values()) / len(scores) for name, scores in report.per_task.items() if scores}


def _tasks(
    runs: Mapping[str, StoredRun], reports: Reports, ids: Mapping[str, Mapping[str, str]], count: int
) -> list[dict[str, Any]]:
    """Return for the first run and each other one the tasks that one solves more often, with the attempts of both.

    `by_chance` is how many of the tasks that tell both apart two equal models would have each way: half. `solved` is
    the share of the attempts that are, of which few may be shown.
    """
    first, *others = runs
    chosen = {
        (solver, other): solved_by_one(reports[solver], reports[other])
        for second in others
        for solver, other in ((second, first), (first, second))
    }
    wanted = {task for found in chosen.values() for task in found[:count]}
    said = {name: _attempts(run, ids[name], wanted) for name, run in runs.items()} if wanted else {}
    prompts = prompts_of(runs[first], wanted) if wanted else {}
    return [
        {
            "solver": solver,
            "other": other,
            "count": len(found),
            "by_chance": (len(found) + len(chosen[other, solver])) / 2,
            "tasks": [
                {
                    "id": task,
                    "prompt": prompts.get(task, ""),
                    "solved": {name: reports[name].per_task["accuracy"][task] for name in (solver, other)},
                    "attempts": {
                        name: [{"text": each.text, "reward": each.total} for each in said[name][task]]
                        for name in (solver, other)
                    },
                }
                for task in found[:count]
            ],
        }
        for (solver, other), found in chosen.items()
    ]


def _attempts(run: StoredRun, ids: Mapping[str, str], tasks: set[str]) -> dict[str, list[Attempt]]:
    found = attempts_at(run, [ids[task] for task in tasks])
    return {task: found[ids[task]] for task in tasks}

"""Puts runs side by side, as JSON: what `rlft compare` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlops.stored.contrast import StoredRun, attempts_at, prompts_of, shared_tasks
from rlft.comparison import Comparison, compare
from rlft.contrasts import compare_pairs, compare_settings, differing, same_setting, solved_by_one
from rlft.contrasts.pairs import shared
from rlft.errors import RlftError
from rlft.types import EvaluationReport

Reports = Mapping[str, EvaluationReport]
_SAME_ATTEMPTS = "these are the same attempts of one model, scored by two rewards"


def make_comparison(runs: Mapping[str, StoredRun], split: str, count: int) -> dict[str, Any]:
    """Return all that is known of runs side by side, as JSON. Raises RlftError if they share no task."""
    kept = shared_tasks(runs.values())
    metric = _metric(runs)
    if not kept:
        raise RlftError(
            f"no task of {split} was given to all of these runs", where="RUN", fix="compare runs on the same tasks"
        )
    reports = shared({name: run.report for name, run in runs.items()}, kept)
    unscored = [name for name, report in reports.items() if not report.per_task.get(metric)]
    if unscored:
        raise RlftError(f"{unscored[0]} has no score in {metric} on these tasks", where="RUN", fix="leave it out")
    settings = {name: run.settings for name, run in runs.items()}
    groups = same_setting(settings)
    return {
        "split": split,
        "metric": metric,
        "tasks": len(kept),
        "left_out": {name: len(run.asked.keys() - kept) for name, run in runs.items()},
        "runs": {name: _means(report) for name, report in reports.items()},
        "settings": differing(settings),
        "code": differing({name: run.code for name, run in runs.items()}),
        "data": differing({name: {"tasks": run.fingerprint} for name, run in runs.items()}),
        "groups": groups,
        "pairs": _pairs(reports, metric, {name: run.model for name, run in runs.items()}),
        "of_settings": _settings(groups, reports, metric),
        "solved_by_one": _tasks(runs, reports, count),
    }


def _metric(runs: Mapping[str, StoredRun]) -> str:
    """Return the metric by which the first run chose its best round. All reports have `accuracy`."""
    first = next(iter(runs.values()))
    metric = (first.settings.get("evaluation") or {}).get("metric", "accuracy")
    return metric if all(metric in run.report.per_task for run in runs.values()) else "accuracy"


def _means(report: EvaluationReport) -> dict[str, float]:
    return {name: sum(scores.values()) / len(scores) for name, scores in report.per_task.items() if scores}


def _pairs(reports: Reports, metric: str, models: Mapping[str, str]) -> list[dict[str, Any]]:
    made = []
    for pair in compare_pairs(reports, metric):
        is_same = models[pair.first] == models[pair.second]
        one, two = reports[pair.first], reports[pair.second]
        others = [name for name in one.per_task if name in two.per_task and name != metric]
        rest = {name: compare(two, one, name) for name in others}
        made.append(
            {
                "first": pair.first,
                "second": pair.second,
                "confidence": pair.confidence,
                "difference": _interval(pair.found),
                "stands": pair.stands and not is_same,
                "obstacle": _SAME_ATTEMPTS if is_same else pair.obstacle,
                "other_metrics": {name: _interval(each) for name, each in rest.items() if each is not None},
            }
        )
    return made


def _interval(found: Comparison | None) -> dict[str, float] | None:
    if found is None:
        return None
    ends = {"low": found.low_with_errors, "high": found.high_with_errors}
    return {"mean": found.difference.mean, **ends, "tasks": found.difference.count}


def _settings(groups: Sequence[Sequence[str]], reports: Reports, metric: str) -> list[dict[str, Any]]:
    return [
        {
            "first": pair.first,
            "second": pair.second,
            "difference": pair.difference,
            "low": pair.low,
            "high": pair.high,
            "confidence": pair.confidence,
            "over_tasks": _interval(pair.over_tasks),
            "stands": pair.stands,
            "least_over_tasks": pair.least,
            "seeds_needed": [{"spread": spread, "runs": count} for spread, count in pair.seeds.items()],
        }
        for pair in compare_settings(groups, reports, metric)
    ]


def _tasks(runs: Mapping[str, StoredRun], reports: Reports, count: int) -> list[dict[str, Any]]:
    """Return for the first run and each other one the tasks that one solves more often, with the attempts of both."""
    first, *others = runs
    chosen = {
        (solver, other): solved_by_one(reports[solver], reports[other])
        for second in others
        for solver, other in ((second, first), (first, second))
    }
    wanted = {task for found in chosen.values() for task in found[:count]}
    said = {name: attempts_at(run, wanted) for name, run in runs.items()} if wanted else {}
    prompts = prompts_of(runs[first], wanted) if wanted else {}
    return [
        {
            "solver": solver,
            "other": other,
            "count": len(found),
            "tasks": [
                {
                    "id": task,
                    "prompt": prompts.get(task, ""),
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

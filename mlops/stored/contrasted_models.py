"""What is told of the models of runs side by side, and of their settings, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from mlops.stored.contrast import StoredRun, is_scored_alike
from rlft.comparison import Comparison, compare
from rlft.contrasts import better_starts, compare_pairs, compare_settings, renamed
from rlft.types import EvaluationReport

Reports = Mapping[str, EvaluationReport]
_SAME_ATTEMPTS = "these are the same attempts of one model, scored by two rewards"
_OTHER_REWARD = "different rewards scored them"


def by_reward(runs: Mapping[str, StoredRun]) -> list[list[str]]:
    """Return the runs in groups that one reward has scored, in their order."""
    groups: list[list[str]] = []
    for name, run in runs.items():
        group = next((each for each in groups if is_scored_alike(runs[each[0]], run)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def of_training(
    runs: Mapping[str, StoredRun], reports: Reports, ids: Mapping[str, Mapping[str, str]], metric: str
) -> dict[str, Any]:
    """Return by run its status, the metric before and after its training, and the gain, and which had a better start.

    `better_starts` are pairs of runs that one reward has scored (`rlft.contrasts.better_starts`).
    """
    gains: dict[str, Comparison] = {}
    for name, run in runs.items():
        start = None if run.start is None else renamed(run.start, ids[name])
        if start is not None and start.per_task.get(metric):
            found = compare(reports[name], start, metric)
            gains |= {} if found is None else {name: found}
    return {
        "training": {
            name: {
                "status": run.status,
                "before": gains[name].before if name in gains else None,
                "after": gains[name].after if name in gains else fmean(reports[name].per_task[metric].values()),
                "gain": _interval(gains.get(name)),
            }
            for name, run in runs.items()
        },
        "better_starts": [
            {"higher": higher, "lower": lower}
            for higher, lower in better_starts(gains)
            if is_scored_alike(runs[higher], runs[lower])
        ],
    }


def of_pairs(reports: Reports, metric: str, runs: Mapping[str, StoredRun]) -> list[dict[str, Any]]:
    """Return the comparison of each two models. None is said to be better by scores of different rewards."""
    made = []
    for pair in compare_pairs(reports, metric):
        obstacle = _obstacle(runs[pair.first], runs[pair.second])
        one, two = reports[pair.first], reports[pair.second]
        others = [name for name in one.per_task if name in two.per_task and name != metric]
        rest = {name: compare(two, one, name) for name in others}
        made.append(
            {
                "first": pair.first,
                "second": pair.second,
                "confidence": pair.confidence,
                "difference": _interval(pair.found),
                "stands": pair.stands and obstacle is None,
                "obstacle": obstacle or pair.obstacle,
                "other_metrics": {name: _interval(each) for name, each in rest.items() if each is not None},
            }
        )
    return made


def _obstacle(one: StoredRun, other: StoredRun) -> str | None:
    """Return why the difference of two runs is not one of their models, whatever its size."""
    if one.model == other.model:
        return _SAME_ATTEMPTS
    return None if is_scored_alike(one, other) else _OTHER_REWARD


def _interval(found: Comparison | None) -> dict[str, float] | None:
    if found is None:
        return None
    ends = {"low": found.low_with_errors, "high": found.high_with_errors}
    return {"mean": found.difference.mean, **ends, "tasks": found.difference.count}


def of_settings(
    groups: Sequence[Sequence[str]], reports: Reports, metric: str, runs: Mapping[str, StoredRun]
) -> list[dict[str, Any]]:
    """Return the comparison of each two settings, which are groups of runs."""
    made = []
    for pair in compare_settings(groups, reports, metric):
        # One reward has scored all runs of a group, as its code is part of the setting.
        alike = is_scored_alike(runs[groups[pair.first][0]], runs[groups[pair.second][0]])
        seeds = pair.seeds.items() if alike else ()
        made.append(
            {
                "first": pair.first,
                "second": pair.second,
                "difference": pair.difference,
                "low": pair.low,
                "high": pair.high,
                "confidence": pair.confidence,
                "over_tasks": _interval(pair.over_tasks),
                "stands": pair.stands and alike,
                "obstacle": None if alike else _OTHER_REWARD,
                "least_over_tasks": pair.least,
                "seeds_needed": [{"spread": spread, "runs": count} for spread, count in seeds],
            }
        )
    return made

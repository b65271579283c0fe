"""What is told of the models of runs side by side, and of their settings, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from mlops.stored.contrast import StoredRun, is_sampled_alike, is_scored_alike
from rlft.comparison import Comparison, compare
from rlft.contrasts import better_starts, compare_pairs, compare_settings, renamed
from rlft.types import EvaluationReport

Reports = Mapping[str, EvaluationReport]
_SAME_ATTEMPTS = "these are the same attempts of one model, scored by two rewards"
_OTHER_REWARD = "different rewards scored them"
_OTHER_SAMPLING = "their attempts were sampled in different ways"
_SAME_WEIGHTS = "these are the same weights"


def by_reward(runs: Mapping[str, StoredRun]) -> list[list[str]]:
    """Return the runs in groups that one reward has scored, in their order."""
    return _grouped(runs, is_scored_alike)


def by_sampling(runs: Mapping[str, StoredRun]) -> list[list[str]]:
    """Return the runs in groups whose attempts were sampled in one way, in their order."""
    return _grouped(runs, is_sampled_alike)


def of_same_weights(runs: Mapping[str, StoredRun]) -> list[list[str]]:
    """Return the runs in groups of at least two whose trained models are the same weights, in their order."""
    return [group for group in _grouped(runs, _has_same_weights) if len(group) > 1]


def _has_same_weights(one: StoredRun, other: StoredRun) -> bool:
    return bool(one.weights) and one.weights == other.weights


def _grouped(runs: Mapping[str, StoredRun], are_alike: Callable[[StoredRun, StoredRun], bool]) -> list[list[str]]:
    groups: list[list[str]] = []
    for name, run in runs.items():
        group = next((each for each in groups if are_alike(runs[each[0]], run)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def of_training(
    runs: Mapping[str, StoredRun], reports: Reports, ids: Mapping[str, Mapping[str, str]], metric: str
) -> dict[str, Any]:
    """Return by run its status, the metric before and after its training, and the gain, and which had a better start.

    `better_starts` are pairs of runs that one reward has scored, and whose attempts were sampled in one way
    (`rlft.contrasts.better_starts`).
    """
    gains, starts = dict[str, Comparison](), dict[str, EvaluationReport]()
    for name, run in runs.items():
        start = None if run.start is None else renamed(run.start, ids[name])
        if start is not None and start.per_task.get(metric):
            found = compare(reports[name], start, metric)
            if found is not None:
                gains[name], starts[name] = found, start
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
            for higher, lower in better_starts(gains, starts, metric)
            if _how_measured(runs[higher], runs[lower]) is None
        ],
    }


def of_pairs(reports: Reports, metric: str, runs: Mapping[str, StoredRun]) -> list[dict[str, Any]]:
    """Return the comparison of each two models. None is said to be better by scores of different kinds."""
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
    return _SAME_WEIGHTS if _has_same_weights(one, other) else _how_measured(one, other)


def _how_measured(one: StoredRun, other: StoredRun) -> str | None:
    """Return why scores of two runs are of different kinds; `None` if they are of one."""
    if not is_scored_alike(one, other):
        return _OTHER_REWARD
    return None if is_sampled_alike(one, other) else _OTHER_SAMPLING


def _interval(found: Comparison | None) -> dict[str, float] | None:
    if found is None:
        return None
    ends = {"low": found.low_with_errors, "high": found.high_with_errors}
    return {"mean": found.difference.mean, **ends, "tasks": found.difference.count}


def seeds_of(runs: Mapping[str, StoredRun]) -> dict[str, Any]:
    """Return the seed of each run; `None` where no config is stored."""
    return {name: run.settings.get("seed") for name, run in runs.items()}


def of_settings(
    groups: Sequence[Sequence[str]], reports: Reports, metric: str, runs: Mapping[str, StoredRun]
) -> list[dict[str, Any]]:
    """Return the comparison of each two settings, which are groups of runs."""
    made = []
    for pair in compare_settings(groups, reports, metric, seeds_of(runs)):
        obstacle = _obstacle_of_settings(*([runs[name] for name in groups[each]] for each in (pair.first, pair.second)))
        seeds = pair.seeds.items() if obstacle is None else ()
        made.append(
            {
                "first": pair.first,
                "second": pair.second,
                "difference": pair.difference,
                "low": pair.low,
                "high": pair.high,
                "confidence": pair.confidence,
                "over_seeds": None
                if pair.over_seeds is None
                else dict(zip(("low", "high"), pair.over_seeds, strict=True)),
                "over_tasks": _interval(pair.over_tasks),
                "stands": pair.stands and obstacle is None,
                "obstacle": obstacle,
                "least_over_tasks": pair.least,
                "seeds_needed": [{"spread": spread, "runs": count} for spread, count in seeds],
                "seeds_between": pair.seeds_between if obstacle is None else None,
            }
        )
    return made


def _obstacle_of_settings(ones: Sequence[StoredRun], others: Sequence[StoredRun]) -> str | None:
    """Return why the difference of two settings, by their runs, is not one of what they train, whatever its size."""
    weights = [sorted(run.weights for run in runs) for runs in (ones, others)]
    if all(weights[0]) and weights[0] == weights[1]:
        return "they have trained the same weights"
    # Reward and sampling are part of the setting, so that they are those of all its runs.
    return _how_measured(ones[0], others[0])

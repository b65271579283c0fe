"""Puts runs side by side, as JSON: settings, tasks, code, evaluations, and tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from mlops.ids import EVALUATION, RESCORE, RETRAIN, TRAINED
from mlops.runs.results import Run, code_of_run, replay_of_run, settings_of_run, stored_tasks
from rlft.errors import RlftError
from rlft.evaluation.comparison import Comparison, compare
from rlft.evaluation.contrasts import (
    Asked,
    Pair,
    SettingPair,
    by_seed,
    compare_pairs,
    compare_settings,
    differing,
    gain_over_seeds,
    match,
    renamed,
    same_setting,
    solved_by_one,
)
from rlft.evaluation.gates import digest, task_hash
from rlft.types import EvaluationReport, Split

# Not `evaluation.num_generations`: more attempts at a task make its mean surer, and leave what it is expected to be.
_SAMPLING = (
    "evaluation.temperature",
    "evaluation.top_p",
    "evaluation.top_k",
    "evaluation.min_p",
    "rollout.max_completion_length",
    "rollout.vllm.max_model_len",
    "policy.chat_template",
    "policy.chat_template_kwargs",
    "harness",
)
_ASIDE = ("harness.lockstep", "harness.isolation", "harness.processes", "harness.memory_mib")  # where the code runs


REWARD_CODE, HARNESS_CODE = "fingerprint of reward", "fingerprint of harness"  # keys of `StoredRun.code`


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that has evaluated its trained policy on a split, whose `report` this is.

    `settings` is its config as a mapping, with what a replay is made of in `replay`, `code` has the commits and
    fingerprints of what it ran, `asked` what each task of the split asks, by id, and `fingerprint` is that of all its
    tasks. `found` is read for more. `status` is that of its summary, and `start` the report of the policy that training
    started from; `None` if there is none on the split. `sampled` are the settings by which the attempts of the report
    were sampled.
    """

    name: str
    found: Run
    settings: Mapping[str, Any]
    code: Mapping[str, str]
    asked: Mapping[str, Asked]
    fingerprint: str
    report: EvaluationReport
    status: str = "unknown"
    start: EvaluationReport | None = None
    sampled: Mapping[str, Any] = field(default_factory=dict)


def stored_runs(runs: Iterable[Run], split: Split) -> dict[str, StoredRun]:
    """Return runs by their names, in this order. Raises RlftError for one that is given twice, or has no evaluation."""
    found: dict[str, StoredRun] = {}
    for each in runs:
        if each.name in found:
            raise RlftError(f"{each.name} is given twice", where="RUN", fix="name different runs")
        found[each.name] = _stored_run(each, split)
    return found


def _stored_run(run: Run, split: Split) -> StoredRun:
    evaluation = run.output(EVALUATION, TRAINED)
    tasks = None if evaluation is None else stored_tasks(run)
    if evaluation is None or tasks is None:
        raise RlftError(
            f"{run.name} has evaluated no trained policy",
            where="RUN",
            fix="`rlft runs` says how it ended; `rlft resume` goes on with one that was cut short",
        )
    if split not in evaluation.splits:
        known = ", ".join(evaluation.splits)
        raise RlftError(f"{run.name} has no evaluation on {split}", where="--split", fix=f"there are: {known}")
    asked = {task.id: Asked(task_hash(task), digest(task.answer)) for task in tasks.split(split)}
    replay, settings = replay_of_run(run), settings_of_run(run)
    return StoredRun(
        run.name,
        run,
        {**settings, **({"replay": replay} if replay else {})},
        code_of_run(run),
        asked,
        tasks.fingerprint,
        evaluation.splits[split],
        run.status(),
        start_report(run, replay, split),
        _settings_of_sampling(run, settings, replay),
    )


def _settings_of_sampling(run: Run, settings: Mapping[str, Any], replay: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings by which the attempts of a run were sampled: of a rescoring those of the run it scores."""
    if replay.get("kind") != RESCORE:
        return settings
    try:
        return settings_of_run(run.sibling(str(replay.get("of"))))
    except RlftError:  # it was deleted
        return settings


def is_scored_alike(one: StoredRun, other: StoredRun) -> bool:
    """Return whether one reward has scored both: the same code, weights and total that counts as solved.

    Where no fingerprint of the code is stored, the environment's name and arguments stand for it.
    """
    codes, sections = [], []
    for run in (one, other):
        codes.append(run.code.get(REWARD_CODE))
        section = run.settings.get("reward") or {}
        sections.append((section.get("weights") or {}, section.get("full")))
    if None in codes:
        codes = [run.settings.get("environment") for run in (one, other)]
    return codes[0] == codes[1] and sections[0] == sections[1]


def is_sampled_alike(one: StoredRun, other: StoredRun) -> bool:
    """Return whether the attempts of both were sampled in one way: by the same settings, prompts and tools.

    Prompts and tools are those of the harness's code. Where the environments' arguments differ its fingerprint tells
    nothing, as it covers those that only the reward reads; then the rewards differ, too.
    """
    found = differing({"one": one.sampled, "other": other.sampled})
    if any(name.startswith(_SAMPLING) and not name.startswith(_ASIDE) for name in found):
        return False
    codes = {run.code[HARNESS_CODE] for run in (one, other) if HARNESS_CODE in run.code}
    return len(codes) < 2 or one.settings.get("environment") != other.settings.get("environment")


def prompts_of(run: StoredRun, tasks: Collection[str]) -> dict[str, str]:
    """Return the last message of each task's prompt."""
    found = stored_tasks(run.found)
    by_id = found.by_id() if found is not None else {}
    return {task: str(by_id[task].prompt[-1].get("content") or "") for task in tasks if task in by_id}


_STARTS = ("warm_start", "base")  # evaluations of what training started from; without a warm start the base model's


def start_report(run: Run, replay: Mapping[str, Any], split: Split) -> EvaluationReport | None:
    """Return the evaluation of the policy that training started from; `None` if it was not evaluated on the split.

    `replay` is what a replay is made of. A retraining has started where the run has that it is made of, if it began
    with round 0; policies between rounds are evaluated on `validation` alone. Raises DamagedError.
    """
    if replay.get("kind") == RETRAIN:
        if replay.get("from_round") != 0:
            return None
        try:
            run = run.sibling(str(replay.get("of")))
        except RlftError:  # it was deleted
            return None
    for name in _STARTS:
        if (evaluation := run.output(EVALUATION, name)) is not None:
            return evaluation.splits.get(split)
    return None


Reports = Mapping[str, EvaluationReport]
_OTHER_REWARD = "different rewards scored them (`rlft rescore RUN --config NEW.yaml` scores both by one)"
_OTHER_SAMPLING = (
    "their attempts were sampled in different ways (`rlft evaluate RUN:best RUN:best --suite CONFIG.yaml` measures "
    "both in one)"
)


def make_comparison(runs: Mapping[str, StoredRun], split: str, count: int) -> dict[str, Any]:
    """Return all that is known of runs side by side, as JSON, with `count` of the tasks that one alone solves.

    Tasks have the ids that they have in the first run. Raises RlftError if the runs share no task.
    """
    ids = match({name: run.asked for name, run in runs.items()})
    kept = len(next(iter(ids.values())))
    metric = _metric(runs)
    if not kept:
        raise RlftError(
            f"{' and '.join(runs)} share no question of {split} with the same answer",
            where="RUN",
            fix="compare runs whose `tasks` name the same data; `rlft rescore` scores attempts by other answers",
        )
    reports = {name: renamed(run.report, ids[name]) for name, run in runs.items()}
    unscored = [name for name, report in reports.items() if not report.per_task.get(metric)]
    if unscored:
        raise RlftError(f"{unscored[0]} has no score in {metric} on these tasks", where="RUN", fix="leave it out")
    gains = {name: _gain(run, reports[name], ids[name], metric) for name, run in runs.items()}
    groups = same_setting({name: _trained_by(run) for name, run in runs.items()})
    seeds = {name: run.settings.get("seed") for name, run in runs.items()}
    return {
        "split": split,
        "metric": metric,
        "tasks": kept,
        "left_out": {name: len(run.asked) - kept for name, run in runs.items()},
        "runs": {name: _means(report) for name, report in reports.items()},
        "training": {
            name: _of_training(run, gains[name], fmean(reports[name].per_task[metric].values()))
            for name, run in runs.items()
        },
        "settings": differing({name: run.settings for name, run in runs.items()}),
        "code": differing({name: run.code for name, run in runs.items()}),
        "data": differing({name: {"tasks": run.fingerprint} for name, run in runs.items()}),
        "groups": groups,
        "seeds": [len(by_seed(group, seeds)) for group in groups],
        "gains": [_of_seeds([gains[reruns[0]] for reruns in by_seed(group, seeds)]) for group in groups],
        "pairs": [_of_pair(pair, runs) for pair in compare_pairs(reports, metric)],
        "of_settings": [
            _of_settings(pair, *(runs[groups[side][0]] for side in (pair.first, pair.second)))
            for pair in compare_settings(groups, reports, metric, seeds)
        ],
        "solved_by_one": list(_solved_by_one(runs, reports, count)),
    }


def _trained_by(run: StoredRun) -> dict[str, Any]:
    """Return what the weights of a run depend on: its settings, and its tasks and code, which files may change."""
    codes = [run.code.get(each) for each in (REWARD_CODE, HARNESS_CODE)]
    return {**run.settings, "code": codes, "tasks fingerprint": run.fingerprint}


def _metric(runs: Mapping[str, StoredRun]) -> str:
    """Return the metric by which the first run chose its best round, if all reports have it. All have `accuracy`."""
    first = next(iter(runs.values()))
    metric = str((first.settings.get("evaluation") or {}).get("metric", "accuracy"))
    return metric if all(metric in run.report.per_task for run in runs.values()) else "accuracy"


def _means(report: EvaluationReport) -> dict[str, float]:
    return {name: fmean(scores.values()) for name, scores in report.per_task.items() if scores}


def _gain(run: StoredRun, report: EvaluationReport, ids: Mapping[str, str], metric: str) -> Comparison | None:
    """Return the trained policy of a run beside what its training started from; `None` if that is not known."""
    if run.start is None or not (start := renamed(run.start, ids)).per_task.get(metric):
        return None
    return compare(report, start, metric)


def _of_training(run: StoredRun, gain: Comparison | None, after: float) -> dict[str, Any]:
    """Return the status of a run, the metric before and after its training, and the gain."""
    before, after = (gain.before, gain.after) if gain else (None, after)
    return {"status": run.status, "before": before, "after": after, "gain": _interval(gain)}


def _of_seeds(gains: Sequence[Comparison | None]) -> dict[str, Any] | None:
    """Return the mean gain of a setting with its interval, from a run of each seed; `None` if one is not known."""
    known = [gain for gain in gains if gain is not None]
    return asdict(gain_over_seeds(known)) if 1 < len(known) == len(gains) else None


def _solved_by_one(runs: Mapping[str, StoredRun], reports: Reports, count: int) -> Iterator[dict[str, Any]]:
    """Yield for the first run and each other one the tasks that one solves more often, either way.

    `by_chance` is how many of the tasks that tell both apart two equal models would have each way: half. `solved` is
    the share of the attempts that are.
    """
    first, *others = runs
    for second in others:
        found = {each: solved_by_one(reports[each[0]], reports[each[1]]) for each in ((second, first), (first, second))}
        prompts = prompts_of(runs[first], {task for tasks in found.values() for task in tasks[:count]})
        for (solver, other), tasks in found.items():
            yield {
                "solver": solver,
                "other": other,
                "count": len(tasks),
                "by_chance": sum(map(len, found.values())) / 2,
                "tasks": [
                    {
                        "id": task,
                        "prompt": prompts.get(task, ""),
                        "solved": {name: reports[name].per_task["accuracy"][task] for name in (solver, other)},
                    }
                    for task in tasks[:count]
                ],
            }


def _of_pair(pair: Pair, runs: Mapping[str, StoredRun]) -> dict[str, Any]:
    """Return the comparison of two models. None is said to be better by scores of different kinds."""
    obstacle = _how_measured(runs[pair.first], runs[pair.second])
    return {
        "first": pair.first,
        "second": pair.second,
        "confidence": pair.confidence,
        "difference": _interval(pair.found),
        "stands": pair.stands and obstacle is None,
        "obstacle": obstacle or pair.obstacle,
    }


def _of_settings(pair: SettingPair, one: StoredRun, other: StoredRun) -> dict[str, Any]:
    """Return the comparison of two settings, of which these are runs; reward and sampling are part of a setting."""
    obstacle = _how_measured(one, other)
    seeds = None if pair.over_seeds is None else dict(zip(("low", "high"), pair.over_seeds, strict=True))
    found = {"over_seeds": seeds, "over_tasks": _interval(pair.over_tasks)}
    return {**asdict(pair), **found, "stands": pair.stands and obstacle is None, "obstacle": obstacle}


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

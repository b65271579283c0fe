"""What is stored of runs that are put side by side: settings, tasks, code, evaluations, and attempts at a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlops.ids import EVALUATION, RESCORE, RETRAIN, REWARDS, ROLLOUTS
from mlops.runs.settings import stored_settings
from mlops.stored.contrast_sampling import ways_of_sampling, weights_of
from mlops.stored.rollouts import Run, stored_tasks
from rlft.contrasts import Asked
from rlft.errors import RlftError
from rlft.evaluation import compared_by
from rlft.gates.identity import digest, task_hash
from rlft.thinking import answer_of
from rlft.types import EvaluationReport, Split

_MADE_BY = {"harness": (ROLLOUTS, "environment_fingerprint"), "reward": (REWARDS, "reward_fingerprint")}
_TRAINED = "trained"
REWARD_CODE, HARNESS_CODE = "fingerprint of reward", "fingerprint of harness"  # keys of `StoredRun.code`


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that has evaluated its trained policy on a split, whose `report` this is.

    `settings` is its config as a mapping, with what a replay is made of in `replay`, `code` has the commits and
    fingerprints of what it ran, `asked` what each task of the split asks, by id, and `fingerprint` is that of all its
    tasks. `found` is read for more. `model` is the name of the run that trained the model: another one if this is
    about its attempts under another reward. `status` is that of its summary, and `start` the report of the policy that
    training started from; `None` if there is none on the split. `sampling` are the settings by which the attempts of
    the report were sampled, and `weights` identify those of the trained policy; empty where they are not known.
    """

    name: str
    found: Run
    settings: Mapping[str, Any]
    code: Mapping[str, str]
    asked: Mapping[str, Asked]
    fingerprint: str
    report: EvaluationReport
    model: str
    status: str = "unknown"
    start: EvaluationReport | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a run's trained policy made of a task: the `text` of its last message, and the total reward, if any."""

    text: str
    total: float | None


def stored_runs(runs: Iterable[Run], split: Split) -> dict[str, StoredRun]:
    """Return runs by their names, in this order. Raises RlftError for one that is given twice, or has no evaluation."""
    found: dict[str, StoredRun] = {}
    for each in runs:
        if each.name in found:
            raise RlftError(f"{each.name} is given twice", where="RUN", fix="name different runs")
        found[each.name] = _stored_run(each, split)
    return found


def _stored_run(run: Run, split: Split) -> StoredRun:
    evaluation = run.output(EVALUATION, _TRAINED)
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
    sampled = _settings_of_sampling(run, settings, replay)
    return StoredRun(
        run.name,
        run,
        {**settings, **({"replay": replay} if replay else {})},
        code_of_run(run),
        asked,
        tasks.fingerprint,
        evaluation.splits[split],
        str(replay["of"]) if replay.get("kind") == RESCORE else run.name,
        run.status(),
        start_report(run, replay, split),
        ways_of_sampling(sampled),
        weights_of(evaluation.splits[split], sampled),
    )


def _settings_of_sampling(run: Run, settings: Mapping[str, Any], replay: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings by which the attempts of a run were sampled: of a rescoring those of the run it scores."""
    if replay.get("kind") != RESCORE:
        return settings
    try:
        return settings_of_run(run.sibling(str(replay.get("of"))))
    except RlftError:  # it was deleted
        return settings


def replay_of_run(run: Run) -> dict[str, Any]:
    """Return what a replay is made of: its `kind`, the run, and how it was trained; empty of any other run."""
    if run.pipeline not in (RESCORE, RETRAIN):
        return {}
    given = run.parameters
    of_training = {key: given[key] for key in ("from_round", "correction") if key in given}
    return {"kind": run.pipeline, "of": given.get("source"), **of_training}


def settings_of_run(run: Run) -> dict[str, Any]:
    """Return the config of a run as a mapping, with the metric that it found; empty if none is stored.

    Raises FormatVersionError.
    """
    settings = stored_settings(run.config, run.name)
    evaluation, baseline = settings.get("evaluation") or {}, run.output(EVALUATION, "baseline")
    if baseline is not None and evaluation.get("metric") == "auto":
        evaluation["metric"] = compared_by("auto", baseline.splits["validation"])
    return settings


def code_of_run(run: Run) -> dict[str, str]:
    """Return the commits of the user's code that the run noted, and the fingerprints of harness and reward."""
    commits: dict[str, str] = (run.parameters.get("labels") or {}).get("commits") or {}
    found = {f"commit of {place}": commit for place, commit in commits.items()}
    for what, (stored, parameter) in _MADE_BY.items():
        if value := run.noted_of_step(stored, _TRAINED, parameter):
            found[f"fingerprint of {what}"] = value
    return found


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
    if one.sampling != other.sampling:
        return False
    codes = {run.code[HARNESS_CODE] for run in (one, other) if HARNESS_CODE in run.code}
    return len(codes) < 2 or one.settings.get("environment") != other.settings.get("environment")


def attempts_at(run: StoredRun, tasks: Collection[str]) -> dict[str, list[Attempt]]:
    """Return the attempts of a run's trained policy at these tasks, by task; none where none are stored."""
    rollouts, rewards = (run.found.output(stored, _TRAINED) for stored in (ROLLOUTS, REWARDS))
    totals = {reward.rollout_id: reward.total for reward in rewards or ()}
    made: dict[str, list[Attempt]] = {task: [] for task in tasks}
    for rollout in rollouts or ():
        if rollout.task_id in made:
            made[rollout.task_id].append(Attempt(answer_of(rollout.messages), totals.get(rollout.rollout_id)))
    return made


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

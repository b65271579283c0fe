"""The pipeline `rescore`: the attempts that a run has stored, under another reward. Nothing is sampled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenml import pipeline

from mlops.home.folder import Home, find_home
from mlops.ids import AUDIT, EVALUATION, ROLLOUTS, TRAINED, round_name, step_id
from mlops.runs.labels import labels_of
from mlops.runs.replayed import Source, StoredRound, find_source
from mlops.runs.resuming import HARNESS
from mlops.runs.runtime import open_environment, pipeline_environment, start_runtime, stop_runtime
from mlops.runs.store import stored_config
from mlops.summary.replays import RescoreSummary
from mlops.tracking.address import tracking_address
from mlops.tracking.run import Tracker
from pipelines.replay import begin, changed_sides, difference, means, open_replay
from pipelines.stages import Artifact, Scored, Stages, score
from rlft.config import Config
from rlft.config.file import check_config
from rlft.errors import ConfigError, RlftError
from rlft.evaluation.evaluate import compared_by
from rlft.rewards.audit.rewards import AuditReport
from rlft.rewards.rescored import RescoreReport, add_up, of_tasks, other_prompts
from rlft.types import Evaluation, TaskSet, add_judging
from steps.evaluation import evaluate_policy
from steps.replay import compare_rewards, leave_out_rollouts, match_tasks
from steps.round import score_rewards
from steps.tasks import audit_rewards, ingest_tasks

STEPS = [ingest_tasks, match_tasks, leave_out_rollouts, audit_rewards, score_rewards, compare_rewards, evaluate_policy]
_ARMS = ("base", "warm_start", TRAINED)  # evaluations of a run whose attempts are scored again, too


@dataclass(frozen=True, slots=True)
class Plan:
    """Which attempts are scored again: those of these `rounds` of a run, by the reward of a config."""

    source: Source
    config: Config
    rounds: tuple[int, ...]


def plan_rescoring(home: Home, run: str, config: Config, rounds: Sequence[int]) -> Plan:
    """Return what to score again: all rounds of a run, or these `rounds` alone. Nothing is begun yet.

    Raises RlftError if the run is not there, goes on or has no such round, or if the config's environment asks
    something else, DamagedError if files are gone, and EnvironmentSetupError if the environment does not load.
    """
    source = find_source(home, run)
    if absent := [number for number in rounds if number not in source.rounds]:
        raise RlftError(
            f"{source.name} has no round {absent[0]}: its last is {max(source.rounds)}",
            where="--round",
            fix=f"give numbers from 0 to {max(source.rounds)}, or none for all rounds",
        )
    chosen = tuple(sorted(set(rounds))) or tuple(source.rounds)
    if _has_same_tasks(source, config):
        _check_environment(source, config, chosen[0])
    return Plan(source, config, chosen)


def _has_same_tasks(source: Source, config: Config) -> bool:
    """Return whether a config reads the tasks as the run did: then those that it has stored are used."""
    try:
        before = check_config(dict(source.settings), where=source.name)
    except ConfigError:  # of a version that had other settings
        return source.settings.get("tasks") == config.tasks.model_dump(mode="json")
    return before.tasks == config.tasks


def _check_environment(source: Source, config: Config, number: int) -> None:
    tasks = source.tasks.load().by_id()
    rollouts = of_tasks(source.rounds[number].rollouts.load(), tasks)
    differing = other_prompts(rollouts, tasks, open_environment(config.environment))
    then = (source.settings.get("environment") or {}).get("name")
    if differing and then != config.environment.name:
        raise RlftError(
            f"{config.environment.name} is another environment than {then}, with which {source.name} was made: it "
            f"gives other prompts (task {differing[0]})",
            where="environment.name",
            fix="score with the environment of the run, whose reward may have changed, or with one that asks the same",
        )


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def rescore(config: dict[str, Any], source: str, rounds: list[int], tracking_uri: str, labels: dict[str, Any]) -> None:
    """Score the stored attempts of a run again, and say what changes.

    `config` is one as runs store it (`mlops.runs.store`), of which environment, reward and tasks are used, `source` the
    name of the run, `rounds` the numbers of its rounds, `tracking_uri` an address of MLflow or `home`, and `labels` the
    `mlops.runs.labels.Labels`.
    """
    settings, own_labels = stored_config(config, "config"), labels_of(labels)
    display, run = begin()
    found = find_source(find_home(), source)
    stages = Stages.of(settings, display.stage)
    summary = RescoreSummary(kind="rescore", name=own_labels.name, source=found.name, source_run_id=str(found.run.id))
    address = tracking_address(tracking_uri)
    with open_replay(summary, found, settings, stages.fingerprints, address, own_labels, run) as tracker:
        tasks = _tasks(stages, found, tracking_uri)
        _note_environment(summary, stages, found, tasks.load(), rounds[0])
        before = found.run.output(AUDIT, "")
        summary.audit_before = before and _audit_as_json(before)
        if settings.reward.audit:
            audit = stages.audit(tasks).load()
            summary.audit = _audit_as_json(audit)
            summary.note_judging("audit", audit.judging)
        reports = {number: _rescore(stages, tasks, found.rounds[number], number, summary) for number in rounds}
        _summarise(summary, reports, tracker)
        _evaluate_arms(stages, tasks, found, summary)
        if summary.left_out:
            summary.notes.append(
                f"{summary.left_out} attempts were left out, as their tasks are not among those of the config any more."
            )
        tracker.log_metrics(_result(summary), step=1)


def _tasks(stages: Stages, source: Source, tracking_uri: str) -> Artifact:
    """Return the stored tasks; as they are read now if the config reads them otherwise than the run did."""
    if _has_same_tasks(source, stages.config):
        return source.tasks
    return match_tasks(source.tasks, stages.ingest(tracking_uri))


def _rescore(
    stages: Stages, tasks: Artifact, stored: StoredRound, number: int, summary: RescoreSummary
) -> RescoreReport:
    name = round_name(number)
    scored = _score(stages, tasks, stored.rollouts, name, summary)
    rewards = scored.rewards.load()
    summary.weights = dict(rewards.weights)
    summary.note_judging("rounds", add_judging(row.judging for row in rewards))
    with stages.show(f"comparison {name}"):
        return compare_rewards(stored.rewards, scored.rewards, id=step_id("compare_rewards", name)).load()


def _score(stages: Stages, tasks: Artifact, rollouts: Artifact, name: str, summary: RescoreSummary) -> Scored:
    """Score attempts by the new reward, without those at tasks that are gone."""
    attempts = rollouts.load()
    if gone := len(attempts) - len(of_tasks(attempts, tasks.load().by_id())):
        rollouts = leave_out_rollouts(tasks, rollouts, id=step_id("leave_out_rollouts", name))
        summary.left_out += gone
    return Scored(rollouts, score(stages.place, tasks, rollouts, name))


def _evaluate_arms(stages: Stages, tasks: Artifact, source: Source, summary: RescoreSummary) -> None:
    """Evaluate the stored attempts of the arms by the new reward, beside what the run's reward said of them."""
    made: dict[str, tuple[Evaluation, Evaluation]] = {}
    for arm in _ARMS:
        then = source.run.output(EVALUATION, arm)
        rollouts = source.run.artifact(ROLLOUTS, arm)
        if then is None or rollouts is None:
            continue
        scored = _score(stages, tasks, rollouts, arm, summary)
        with stages.show(f"evaluation {arm}"):
            now = evaluate_policy(tasks, scored.rollouts, scored.rewards, id=EVALUATION.step_id(arm)).load()
        made[arm] = (then, now)
        summary.note_judging("evaluation", now.judging)
        summary.evaluations[arm] = {"before": means(then), "after": means(now)}
    start = "warm_start" if "warm_start" in made else "base"
    if TRAINED in made and start in made:
        metric = compared_by(stages.config.evaluation.metric, made[start][1].splits["test"])
        before, after = (difference(made[TRAINED][side], made[start][side], metric) for side in (0, 1))
        summary.gain = {"metric": metric, "before": before, "after": after}


def _audit_as_json(report: AuditReport) -> dict[str, Any]:
    return {"passed": report.passed, "findings": list(report.findings)}


def _note_environment(summary: RescoreSummary, stages: Stages, source: Source, tasks: TaskSet, number: int) -> None:
    """Note what has changed beside the reward: the attempts are as they were made."""
    summary.notes.append(
        f"Nothing was sampled: these are the attempts of {source.name}, made while it learnt from its own reward. "
        "Under another one it would have made others, which `rlft run` with this config tells."
    )
    rollouts = of_tasks(source.rounds[number].rollouts.load(), tasks.by_id())
    differing = other_prompts(rollouts, tasks.by_id(), pipeline_environment(stages.config.environment))
    if differing:
        summary.notes.append(
            f"The prompts of {len(differing)} tasks of round {number} are others now: the attempts answer the prompts "
            "that they were given."
        )
    sides = changed_sides(source, stages.fingerprints)
    if HARNESS in sides and not differing:
        summary.notes.append(
            "The environment, its arguments or its tools differ from those that the attempts were made with: what is "
            "scored are the conversations as they were."
        )
    if sides == [] and source.settings.get("reward") == stages.config.reward.model_dump(mode="json"):
        summary.notes.append("Reward and settings are those of the run, so that nothing should differ.")


def _summarise(summary: RescoreSummary, reports: Mapping[int, RescoreReport], tracker: Tracker) -> None:
    """Fill in what changes in each round and in all, as JSON, and log the curves."""
    summary.rounds = {str(number): dataclasses.asdict(report) for number, report in reports.items()}
    summary.total = dataclasses.asdict(add_up(list(reports.values())))
    for number, report in reports.items():
        after = {name if "/" not in name else f"{name}/mean": mean for name, (mean, _) in report.after.items()}
        tracker.log_metrics({**after, **_shares(report)}, step=number + 1)  # as in a run, where 0 is before training


def _shares(report: RescoreReport) -> dict[str, float]:
    compared, groups = sum(report.pairs.values()), report.groups
    found = {f"rescore/pairs_{kind}": count / compared for kind, count in report.pairs.items() if compared}
    if groups:
        found["rescore/groups_reordered"] = report.reordered / groups
        found["frac_reward_zero_std"] = 1 - report.varying_after / groups
    return found | {"rewards/errored": float(report.errored_after)}


def _result(summary: RescoreSummary) -> dict[str, float]:
    """Return what heads the MLflow run: how much of the order changes, and whether the audit passes."""
    assert summary.total is not None
    groups = summary.total["groups"]
    found = {"0_result/groups_reordered": summary.total["reordered"] / groups} if groups else {}
    return found | ({} if summary.audit is None else {"0_result/audit_passed": float(summary.audit["passed"])})

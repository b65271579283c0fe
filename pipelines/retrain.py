"""The pipeline `retrain`: other training on the attempts that a run has stored, evaluated as in that run.

Only the policy's own validations and evaluations are sampled. Rounds whose attempts another policy has sampled are
trained on with importance sampling (`rlft.training.loss`).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zenml import pipeline

from mlops.home.folder import Home, find_home
from mlops.ids import EVALUATION, TASKS, TRAINED, validation_name
from mlops.runs.labels import labels_of
from mlops.runs.policies import noted_weights, stored_policy
from mlops.runs.replayed import Source, StoredRound, find_source, policy_before
from mlops.runs.runtime import code_of_run, start_runtime, stop_runtime
from mlops.runs.store import stored_config
from mlops.summary.arms import arm_metrics
from mlops.summary.replays import RetrainSummary
from mlops.tracking.address import tracking_address
from pipelines.arms import FINAL_SPLITS
from pipelines.replay import begin, changed_sides, difference, open_replay
from pipelines.rounds import Rounds, run_rounds
from pipelines.stages import Artifact, Scored, Stages
from pipelines.watching import Watch
from rlft.config import Config
from rlft.config.file import apply_override, check_config
from rlft.config.training import BudgetConfig
from rlft.errors import ConfigError
from rlft.estimation.readiness import check_loss
from rlft.evaluation.contrasts import differing
from rlft.evaluation.diagnosis.monitors import of_validation
from rlft.evaluation.stopping import Account
from rlft.training.loss import CORRECTION, corrected, is_on_policy
from rlft.training.tally import CAPPED, EFFECTIVE, LOGP_DIFFERENCE, MEAN_WEIGHT
from rlft.types import add_judging
from steps.evaluation import evaluate_policy
from steps.replay import take_tasks
from steps.round import generate_rollouts, score_rewards, train_grpo

STEPS = [take_tasks, train_grpo, generate_rollouts, score_rewards, evaluate_policy]
_CORRECTION = "training.importance_sampling_correction"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is trained again: which run, with which config, and how attempts of another policy are weighted."""

    source: Source
    config: Config
    correction: str | None


def plan_retraining(home: Home, run: str, from_round: int, overrides: Sequence[str]) -> Plan:
    """Return how to train a run again from a round on, with `overrides` of its config. Nothing is begun yet.

    Raises ConfigError for a config that cannot be, RlftError if the run is not there, goes on or has no such round,
    DamagedError or WeightsRemovedError if files are gone, and EnvironmentSetupError if its environment does not load.
    """
    source = find_source(home, run)
    content = copy.deepcopy(dict(source.settings))
    for override in overrides:
        apply_override(content, override)
    config = check_config(content, where=source.name)
    if config.training.lag != (lag := source.settings.get("training", {}).get("lag", 0)):
        raise ConfigError(
            f"the attempts of {source.name} were sampled with a lag of {lag}, and are not sampled again",
            where="--set training.lag",
            fix="leave it out; `rlft run` samples with another lag",
        )
    if from_round in source.rounds and not from_round < config.training.rounds:
        raise ConfigError(
            f"training.rounds={config.training.rounds} ends before round {from_round}, as rounds count from 0",
            where="--set training.rounds",
            fix=f"give at least {from_round + 1}, or an earlier --from-round",
        )
    policy_before(home, source, from_round)
    check_loss(config.training)
    code_of_run(config)
    explicit = any(override.partition("=")[0] == _CORRECTION for override in overrides)
    chosen = config.training.importance_sampling_correction
    return Plan(source, config, chosen if chosen or explicit else CORRECTION)


@dataclass(frozen=True, slots=True)
class StoredStages(Stages):
    """The stages of a run whose rounds take what is `stored` instead of sampling.

    `correction` is for rounds that another policy has sampled; which these are is noted in `own`. With a `lag` a round
    is its own, too, if the policy before the round before it has sampled it; `weights` are those of the policies before
    the rounds.
    """

    stored: Mapping[int, StoredRound] = field(default_factory=dict)
    correction: str | None = None
    own: dict[int, bool] = field(default_factory=dict)
    weights: dict[int, str] = field(default_factory=dict)
    lag: int = 0

    @property
    def draws(self) -> bool:
        """No tasks are drawn: those of the stored attempts are what there is."""
        return False

    def sample_round(self, policy: Artifact, tasks: Artifact, round: int) -> Scored:
        """Return the stored attempts of a round and their rewards."""
        del policy, tasks
        return Scored(self.stored[round].rollouts, self.stored[round].rewards)

    def train(self, policy: Artifact, reference: Artifact, scored: Scored, round: int) -> tuple[Artifact, Artifact]:
        """Train on a round, with the correction if its attempts are not the policy's own."""
        self.weights[round], age = noted_weights(policy), min(round, self.lag)
        # The first round begins as it did in the run, so that what sampled it there has sampled it for this one.
        sampled_by = self.weights.get(round - age)
        own = self.own[round] = sampled_by is None or is_on_policy(scored.rollouts.load(), sampled_by)
        training = self.config.training if own else corrected(self.config.training, self.correction)
        stages = replace(self, config=self.config.model_copy(update={"training": training}))
        return Stages.train(stages, policy, reference, replace(scored, age=age if own else 0), round)


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def retrain(
    config: dict[str, Any],
    source: str,
    from_round: int,
    correction: str | None,
    tracking_uri: str,
    labels: dict[str, Any],
) -> None:
    """Train again on the stored attempts of a run, from a round on.

    `config` is that of the run with other settings of `training`, `source` the name of the run, `correction` how
    attempts of another policy are weighted, `tracking_uri` an address of MLflow or `home`, and `labels` the
    `mlops.runs.labels.Labels`.
    """
    settings, own_labels = stored_config(config, "config"), labels_of(labels)
    display, run = begin(settings.distributed)
    home = find_home()
    found = find_source(home, source)
    stages = _stages(settings, found, correction, display.stage)
    summary = RetrainSummary(
        kind="retrain",
        name=own_labels.name,
        source=found.name,
        source_run_id=str(found.run.id),
        metric=settings.evaluation.metric,
        changes=_changes(found, settings),
        from_round=from_round,
        correction=correction,
    )
    address = tracking_address(tracking_uri)
    with open_replay(summary, found, settings, stages.fingerprints, address, own_labels, run) as tracker:
        tasks, start = take_tasks(found.tasks, id=TASKS.step), policy_before(home, found, from_round)
        rounds = run_rounds(
            stages,
            tasks,
            start,
            tracker,
            Account(BudgetConfig()),  # what a budget bounds is spent: nothing is sampled for training
            watch=Watch(stages, tasks, tracker, of_validation(settings.monitors.actions())),
            numbers=range(from_round, min(settings.training.rounds, len(found.rounds))),
            reference=stored_policy(home, found.name, "start", None),
        )
        trained = stages.evaluate(rounds.best, tasks, FINAL_SPLITS, TRAINED).load()
        summary.note_judging("validation", add_judging(rounds.validations_judging))
        summary.note_judging("evaluation", trained.judging)
        theirs = found.run.output(EVALUATION, TRAINED)
        summary.final = arm_metrics(trained)
        summary.source_final = {} if theirs is None else arm_metrics(theirs)
        summary.difference = difference(trained, theirs, summary.metric)
        _summarise(summary, found, stages, rounds)
        tracker.log_metrics(_result(summary), step=1)


def _stages(config: Config, source: Source, correction: str | None, display: Any) -> StoredStages:
    """Return the stages of a retraining; the source shows its attempts, so that this shows none of them."""
    silent = config.tracking.model_copy(update={"trace_every": 0})
    updates = {"tracking": silent, "training": config.training.without_lag()}  # nothing is sampled, ahead or not
    plain = Stages.of(config.model_copy(update=updates), display)
    lag = config.training.lag
    return StoredStages(plain.config, plain.fingerprints, plain.show, source.rounds, correction, lag=lag)


def _changes(source: Source, config: Config) -> dict[str, list[Any]]:
    before = check_config(dict(source.settings), where=source.name).model_dump(mode="json")
    found = differing({"before": before, "after": config.model_dump(mode="json")})
    return {key: [values["before"], values["after"]] for key, values in found.items()}


def _summarise(summary: RetrainSummary, source: Source, stages: StoredStages, rounds: Rounds) -> None:
    summary.rounds, summary.stopped = len(rounds.reports), rounds.stopped
    summary.best_round = rounds.best_round or summary.from_round
    summary.alarms = [dataclasses.asdict(alarm) for alarm in rounds.alarms.values()]
    summary.ledger = rounds.counts()
    summary.off_policy = [
        {
            "round": report.round,
            "on_policy": stages.own[report.round],
            "age": report.age,
            "effective_sample_ratio": report.metrics.get(EFFECTIVE),
            "mean_weight": report.metrics.get(MEAN_WEIGHT),
            "capped_ratio": report.metrics.get(CAPPED),
            "logp_difference": report.metrics.get(f"{LOGP_DIFFERENCE}/mean"),
        }
        for report in rounds.reports
    ]
    for number, report in sorted(rounds.validated.items()):
        theirs = source.run.output(EVALUATION, validation_name(number))
        other = None if theirs is None else theirs.splits["validation"].metrics.get(summary.metric)
        mine = report.metrics.get(summary.metric)
        summary.validation.append({"rounds": number, "retrained": mine and mine.mean, "source": other and other.mean})
    summary.notes = _what_it_tells(summary, changed_sides(source, stages.fingerprints))


def _what_it_tells(summary: RetrainSummary, changed: Sequence[str]) -> list[str]:
    """Return what the result can tell, and what it cannot, in sentences; of `changed` sides the code is another now."""
    others = [each for each in summary.off_policy if not each["on_policy"]]
    notes = [
        f"Rounds {others[0]['round']} to {others[-1]['round']} were sampled by the policies of {summary.source}, not "
        "by the one that was trained here. So this compares ways of learning from the same attempts; it says nothing "
        "on exploration, which is what this policy would have tried itself. `rlft run` with these settings does."
        if others
        else "All rounds had been sampled by the policy that was trained, so this is what "
        f"{summary.source} would have done itself."
    ]
    if others and summary.correction is None:
        notes.append("The attempts of other policies were not weighted, as was asked: their loss is biased.")
    if changed:
        notes.append(
            f"The code of the environment's {' and '.join(changed)} has changed since {summary.source} was made: the "
            "evaluations are by the code of now, and are no fair comparison with those of the run."
        )
    return notes


def _result(summary: RetrainSummary) -> dict[str, float]:
    """Return what heads the MLflow run: the score on `test`, that of the source, and the difference."""
    if summary.difference is None:
        return {}
    own = {"after": "after", "source": "before", "over_source": "mean"}
    own |= {f"over_source_{end}": end for end in ("low", "high")}
    return {f"0_result/{name}": summary.difference[key] for name, key in own.items()}

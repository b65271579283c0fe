"""Steps of a round of training: draw tasks, sample attempts at them, score those, train, and note the pass rates.

Evaluations sample and score by the same two steps.
"""

import dataclasses
from functools import partial
from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from materializers.tables import RewardsMaterializer, RolloutsMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import Runtime, current_runtime, tag_round
from rlft.config import DistributedConfig, EnvironmentConfig, RewardConfig, TrainingConfig
from rlft.config.training import PassRatesConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.evaluation.metrics import round_metrics
from rlft.harness.rollout import SamplingSettings, collect_rollouts
from rlft.models import PolicyFolder, save_policy
from rlft.models.flops import ENCODED, OF_SEQUENCES
from rlft.models.live import holds_reference
from rlft.rewards.scoring import score_rollouts
from rlft.tasks.curriculum import Draw, PassRates, Selection, draw_round, note_round, select_tasks
from rlft.training.groups import Groups, reasons, sample_groups
from rlft.training.job import Job, Round, train_job, unused_report
from rlft.types import Rewards, Rollouts, TaskSet, TrainReport


@step(cache_policy=cache_policies.DRAW, output_materializers=ReportMaterializer)
def draw_tasks(
    tasks: TaskSet,
    training: TrainingConfig,
    round: int,
    seed: int,
    rates: PassRates | None = None,
) -> Annotated[Draw, "draw"]:
    """Draw by the pass rates that the run has so far; `None` for a uniform draw, or before there are some."""
    tag_round("draw")
    return draw_round(tasks, training, round=round, seed=seed, rates=rates)


@step(
    cache_policy=cache_policies.GROUPS,
    output_materializers={"rollouts": RolloutsMaterializer, "rewards": RewardsMaterializer},
)
def generate_groups(
    tasks: TaskSet,
    policy: PolicyFolder,
    draw: Draw,
    groups: Groups,
    sampling: SamplingSettings,
    environment: EnvironmentConfig,
    environment_fingerprint: str,
    reward: RewardConfig,
    reward_fingerprint: str,
    device: str,
) -> tuple[Annotated[Rollouts, "rollouts"], Annotated[Rewards, "rewards"]]:
    """Sample attempts at drawn tasks, and at others in place of those whose attempts were all scored alike."""
    del reward_fingerprint  # part of the cache key: which tasks are sampled depends on the rewards
    tag_round("rollouts", "rewards")
    runtime, by_id = current_runtime(), tasks.by_id()
    runtime.lent.progress(0, None, "loading the policy into the engine")
    known = {"environment": runtime.environment(environment), "progress": runtime.lent.progress}
    asked = {"num_generations": groups.num_generations, "round": draw.round, "label": "train", "sampling": sampling}
    player = runtime.player(policy, sampling, device)
    sample = partial(collect_rollouts, player=player, environment_fingerprint=environment_fingerprint, **asked, **known)
    score = partial(score_rollouts, tasks=by_id, settings=reward, **known)
    sampled = sample_groups(draw, by_id, sample, score, batches=groups.max_num_gen_batches)
    return sampled.rollouts, sampled.rewards


@step(cache_policy=cache_policies.ROLLOUT, output_materializers=RolloutsMaterializer)
def generate_rollouts(
    tasks: TaskSet,
    policy: PolicyFolder | AskedModel,
    selection: Selection,
    sampling: SamplingSettings,
    environment: EnvironmentConfig,
    environment_fingerprint: str,
    device: str,
) -> Annotated[Rollouts, "rollouts"]:
    """Sample a group of attempts at each task; token ids, log-probabilities and mask are kept as sampled.

    A model behind an address gives messages alone.
    """
    tag_round("rollouts")
    runtime = current_runtime()
    runtime.lent.progress(0, None, "loading the policy into the engine")
    return collect_rollouts(
        select_tasks(tasks, selection, seed=sampling.seed),
        runtime.environment(environment),
        runtime.player(policy, sampling, device),
        sampling,
        num_generations=selection.num_generations,
        round=selection.round,
        label=selection.label,
        environment_fingerprint=environment_fingerprint,
        progress=runtime.lent.progress,
    )


@step(cache_policy=cache_policies.REWARD, output_materializers=RewardsMaterializer)
def score_rewards(
    tasks: TaskSet,
    rollouts: Rollouts,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    reward_fingerprint: str,
    known: Rewards | None = None,
) -> Annotated[Rewards, "rewards"]:
    """Score every rollout with the environment's reward; an error is kept as an error, never a zero.

    `known` are the rewards where these rollouts were scored while they were sampled (`generate_groups`).
    """
    del reward_fingerprint  # part of the cache key
    tag_round("rewards")
    if known is not None:
        return known
    runtime = current_runtime()
    opened = runtime.environment(environment)
    return score_rollouts(rollouts, tasks.by_id(), opened, reward, progress=runtime.lent.progress)


@step(
    cache_policy=cache_policies.TRAINING,
    output_materializers={"policy": PolicyMaterializer, "train_report": ReportMaterializer},
)
def train_grpo(
    policy: PolicyFolder,
    reference: PolicyFolder,
    rollouts: Rollouts,
    rewards: Rewards,
    training: TrainingConfig,
    loss_fingerprint: str,
    round: Round,
    device: str,
    draw: Draw | None = None,
    distributed: DistributedConfig | None = None,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[TrainReport, "train_report"]]:
    """Update the policy on a round's rollouts. If the numbers go wrong, its output is the policy that came in."""
    del loss_fingerprint  # of the loss's code, part of the cache key
    tag_round("policy", "train_report")
    runtime = current_runtime()
    runtime.policies.note_training()
    needs_copy = training.beta > 0 and not holds_reference(policy.metadata, reference.metadata)
    job = Job(
        policy,
        reference if needs_copy else None,
        rollouts,
        rewards,
        training,
        round,
        target=runtime.new_folder(),
    )
    trainers = distributed.trainers if distributed else 1
    train = _train_here if distributed is None or trainers == 1 else partial(_train_together, distributed=distributed)
    report = train(job, runtime, device)
    clocks = {
        "perf/rollout_seconds": rollouts.seconds,
        "perf/score_seconds": rewards.seconds,
        "perf/train_seconds": report.seconds,
        "perf/trainers": float(trainers),
    }
    sampled = round_metrics(rollouts, rewards)
    read = {name: sampled.get(name, 0.0) + report.metrics.get(name, 0.0) for name in (ENCODED, OF_SEQUENCES)}
    metrics = sampled | report.metrics | read | clocks
    report = dataclasses.replace(report, metrics=metrics, drawn=reasons(draw, rewards))
    return policy if report.stopped else PolicyFolder(job.target), report


def _train_here(job: Job, runtime: Runtime, device: str) -> TrainReport:
    """Train in this process, and write the policy to the job's target unless the round is undone."""
    live = runtime.policies.borrow(job.policy, device)
    reference = runtime.policies.of(job.reference, device) if job.reference else None
    report = train_job(job, live, reference, save_policy, progress=runtime.training_progress)
    if not report.stopped:  # else `live` may have changed: it is not kept, and the next step loads its folder
        runtime.policies.keep(live)
    return report


def _train_together(job: Job, runtime: Runtime, device: str, distributed: DistributedConfig) -> TrainReport:
    """Train in several processes, which write the policy to the job's target unless the round is undone."""
    return runtime.trainers(distributed, device).train(job, runtime.training_progress)


@step(cache_policy=cache_policies.UNUSED, output_materializers=ReportMaterializer)
def report_unused(rollouts: Rollouts, rewards: Rewards, round: int, age: int) -> Annotated[TrainReport, "train_report"]:
    """Note of every rollout of a round that training had ended before it could be trained on."""
    tag_round("train_report")
    return unused_report(rollouts, rewards, round=round, age=age)


@step(cache_policy=cache_policies.DRAW, output_materializers=ReportMaterializer)
def note_pass_rates(
    rewards: Rewards, settings: PassRatesConfig, round: int, rates: PassRates | None = None
) -> Annotated[PassRates, "pass_rates"]:
    """Add the attempts of a round, and retire the tasks that are taken for solved."""
    tag_round("pass_rates")
    known = rates or PassRates()
    return note_round(known, rewards, round=round, half_life=settings.half_life, retire_at=settings.retire_at)

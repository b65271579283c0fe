"""The step `train_grpo` trains the policy on one round of rollouts."""

import dataclasses
from functools import partial
from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import Runtime, current_runtime, tag_round
from rlft.config import DistributedConfig, TrainingConfig
from rlft.curriculum.draw import Draw
from rlft.curriculum.groups import reasons
from rlft.flops import ENCODED, OF_SEQUENCES
from rlft.metrics import round_metrics
from rlft.policy import PolicyFolder, save_policy
from rlft.policy.live import holds_reference
from rlft.training.job import Job, Round, train_job
from rlft.types import Rewards, Rollouts, TrainReport


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
        round=round.number,
        temperature=round.temperature,
        max_completion_length=round.max_completion_length,
        target=runtime.new_folder(),
        age=round.age,
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
    return runtime.on_ray.trainers(distributed, device).train(job, runtime.training_progress)

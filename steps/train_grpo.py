"""The step `train_grpo` trains the policy on one round of rollouts."""

import dataclasses
from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runtime import cache_policies
from mlops.runtime.runtime import current_runtime
from mlops.runtime.tags import tag_round
from rlft.config import TrainingConfig
from rlft.curriculum.draw import Draw
from rlft.curriculum.groups import reasons
from rlft.metrics import round_metrics
from rlft.policy import PolicyFolder, save_policy
from rlft.training.optimizer import prepare_optimizer
from rlft.training.trainer import train_round
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
    temperature: float,
    max_completion_length: int,
    round: int,
    device: str,
    draw: Draw | None = None,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[TrainReport, "train_report"]]:
    """Update the policy on a round's rollouts. If the numbers go wrong, its output is the policy that came in."""
    del loss_fingerprint  # of the loss's code, part of the cache key
    tag_round("policy", "train_report")
    runtime = current_runtime()
    live = runtime.borrow(policy, device)
    parent = live.metadata.content_hash
    prepare_optimizer(live, training, policy)
    # With its adapter switched off a policy is the base model. That is the reference only if training starts from it.
    needs_copy = training.beta > 0 and (live.metadata.kind == "full" or reference.metadata.stage != "base")
    report = train_round(
        live,
        rollouts,
        rewards,
        training,
        round=round,
        temperature=temperature,
        max_completion_length=max_completion_length,
        reference=runtime.policy(reference, device) if needs_copy else None,
        progress=runtime.lent.progress,
    )
    clocks = {
        "perf/rollout_seconds": rollouts.seconds,
        "perf/score_seconds": rewards.seconds,
        "perf/train_seconds": report.seconds,
    }
    metrics = round_metrics(rollouts, rewards) | report.metrics | clocks
    report = dataclasses.replace(report, metrics=metrics, drawn=reasons(draw, rewards))
    if report.stopped:  # `live` may have changed: it is not kept, and the next step loads `policy` from its folder
        return policy, report
    folder = save_policy(live, runtime.new_folder(), stage="grpo", round=round + 1, parent=parent)
    runtime.keep(live)
    return folder, report

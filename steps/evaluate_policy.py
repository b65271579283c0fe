"""The step `evaluate_policy` turns the scores of a policy's rollouts into metrics."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from rlft.evaluation import evaluate_rollouts
from rlft.flops import ENCODED, OF_SEQUENCES, ROLLOUT_FLOPS
from rlft.types import Evaluation, Rewards, Rollouts, TaskSet, add_judging


@step(cache_policy=cache_policies.EVALUATION, output_materializers=ReportMaterializer)
def evaluate_policy(tasks: TaskSet, rollouts: Rollouts, rewards: Rewards) -> Annotated[Evaluation, "evaluation"]:
    """Compute metrics with intervals by split, and the per-task scores for paired comparisons."""
    reports = evaluate_rollouts(rollouts, rewards, tasks)
    flops = rollouts.metrics.get(ROLLOUT_FLOPS)
    judging = add_judging(reward.judging for reward in rewards)
    read = {name: rollouts.metrics[name] for name in (ENCODED, OF_SEQUENCES) if name in rollouts.metrics}
    seconds = rollouts.seconds + rewards.seconds
    return Evaluation(splits=reports, seconds=seconds, flops=flops, judging=judging, read=read)

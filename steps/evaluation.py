"""Steps that measure a policy: by its scored attempts, at a scenario of a suite, and by how it predicts other texts."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from materializers.tables import TaskSetMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.evaluation.evaluate import evaluate_rollouts
from rlft.evaluation.forgetting import TextBits, measure_bits, shipped_texts
from rlft.evaluation.suites import CellMeasures, evaluate_cell
from rlft.models import PolicyFolder
from rlft.models.flops import ENCODED, OF_SEQUENCES, ROLLOUT_FLOPS
from rlft.tasks.splits import as_one_split
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


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def take_as_one_split(tasks: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return all tasks as those of `test`. Not cached, as it is cheap."""
    return as_one_split(tasks)


@step(
    cache_policy=cache_policies.SCENARIO,
    output_materializers={"evaluation": ReportMaterializer, "measures": ReportMaterializer},
)
def evaluate_scenario(
    tasks: TaskSet, rollouts: Rollouts, rewards: Rewards, slices: list[str]
) -> tuple[Annotated[Evaluation, "evaluation"], Annotated[CellMeasures, "measures"]]:
    """Compute all metrics with intervals, in all and by slice, and the per-task scores for paired comparisons."""
    evaluation, measures = evaluate_cell(rollouts, rewards, tasks, slices, rollouts.metrics.get(ROLLOUT_FLOPS))
    return evaluation, measures  # ZenML counts outputs by what stands here


@step(cache_policy=cache_policies.FORGETTING, output_materializers=ReportMaterializer)
def measure_forgetting(policy: PolicyFolder, device: str, texts: str) -> Annotated[TextBits, "text_bits"]:
    """Measure the bits per byte that the policy needs for the shipped texts."""
    del texts  # their fingerprint, part of the cache key
    runtime = current_runtime()
    return measure_bits(runtime.policies.of(policy, device), shipped_texts(), progress=runtime.lent.progress)

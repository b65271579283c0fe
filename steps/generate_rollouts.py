"""The step `generate_rollouts` samples attempts at tasks with a policy."""

from typing import Annotated

from zenml import step

from materializers.tables import RolloutsMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime, tag_round
from rlft.config import EnvironmentConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.policy import PolicyFolder
from rlft.rollout import SamplingSettings, Selection, collect_rollouts, select_tasks
from rlft.types import Rollouts, TaskSet


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
        sampling.of_tokens,
        num_generations=selection.num_generations,
        round=selection.round,
        seed=sampling.seed,
        label=selection.label,
        environment_fingerprint=environment_fingerprint,
        harness=sampling.harness,
        examples=sampling.examples,
        progress=runtime.lent.progress,
    )

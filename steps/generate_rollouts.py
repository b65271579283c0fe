"""The step `generate_rollouts` samples attempts at tasks with a policy."""

from __future__ import annotations

from typing import Annotated

from zenml import step

from materializers.tables import RolloutsMaterializer
from mlops.runtime import cache_policies
from mlops.runtime.runtime import current_runtime
from mlops.runtime.tags import tag_round
from rlft.config import EngineSettings, EnvironmentConfig, HarnessConfig, Section
from rlft.engines.base import Sampling
from rlft.policy import PolicyFolder
from rlft.rollout import collect_rollouts, tasks_of_round, tasks_of_splits
from rlft.types import Rollouts, Split, TaskSet


class Selection(Section):
    """Which tasks to attempt: `count` train tasks of a `round`, or at most `count` (all if `None`) of each of `splits`.

    Each task gets `num_generations` attempts. `label` begins the rollouts' ids and is part of their seeds.
    """

    label: str
    num_generations: int
    round: int = 0
    count: int | None = None
    splits: list[Split] | None = None


class SamplingSettings(Section):
    """How attempts are sampled, and with which seed; see `rollout`, `harness` and `seed` in the config."""

    temperature: float
    max_completion_length: int
    batch_size: int
    seed: int
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    engine: EngineSettings = EngineSettings()
    harness: HarnessConfig = HarnessConfig()


@step(cache_policy=cache_policies.ROLLOUT, output_materializers=RolloutsMaterializer)
def generate_rollouts(
    tasks: TaskSet,
    policy: PolicyFolder,
    selection: Selection,
    sampling: SamplingSettings,
    environment: EnvironmentConfig,
    environment_fingerprint: str,
    device: str,
) -> Annotated[Rollouts, "rollouts"]:
    """Sample a group of attempts at each task; token ids, log-probabilities and mask are kept as sampled."""
    tag_round("rollouts")
    runtime = current_runtime()
    runtime.lent.progress(0, None, "loading the policy into the engine")
    live = runtime.policy(policy, device)
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    engine.load_policy(live)
    if selection.splits is None:
        chosen = tasks_of_round(tasks, round=selection.round, count=selection.count or 1, seed=sampling.seed)
    else:
        chosen = tasks_of_splits(tasks, selection.splits, limit=selection.count)
    return collect_rollouts(
        chosen,
        runtime.environment(environment),
        live,
        engine,
        Sampling(sampling.temperature, sampling.max_completion_length, sampling.top_p, sampling.top_k, sampling.min_p),
        num_generations=selection.num_generations,
        round=selection.round,
        seed=sampling.seed,
        label=selection.label,
        environment_fingerprint=environment_fingerprint,
        harness=sampling.harness,
        progress=runtime.lent.progress,
    )

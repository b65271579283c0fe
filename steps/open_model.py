"""The step `open_model` loads a model that is named by its hub name or folder."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, HarnessConfig, PolicyConfig
from rlft.harness.preparing import open_prepared
from rlft.policy import PolicyFolder, save_policy


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def open_model(
    policy: PolicyConfig, environments: list[EnvironmentConfig], harnesses: list[HarnessConfig], seed: int
) -> Annotated[PolicyFolder, "policy"]:
    """Make a policy of a model, ready for each environment. Not cached: a folder may have changed."""
    runtime = current_runtime()
    runtime.lent.progress(0, None, "loading the model")
    opened = map(runtime.environment, environments)
    live = open_prepared(policy, list(zip(opened, harnesses, strict=True)), seed=seed)
    folder = save_policy(live, runtime.new_folder(), stage="base")
    runtime.policies.keep(live)
    return folder

"""The step `ask_model` asks a model behind an address for a first answer."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, ModelControl
from rlft.engines.chat_endpoint import AskedModel
from rlft.harness.asked import get_to_know
from rlft.rollout import SamplingSettings
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=ReportMaterializer)
def ask_model(
    tasks: TaskSet, control: ModelControl, environment: EnvironmentConfig, sampling: SamplingSettings
) -> Annotated[AskedModel, "asked_model"]:
    """Ask about one task, so that a wrong address, key or name stops the run. Not cached: the endpoint may be gone."""
    opened = current_runtime().environment(environment)
    return get_to_know(control, tasks.tasks[0], opened, sampling.harness, sampling.of_tokens)

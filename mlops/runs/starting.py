"""What a run is started and resumed with: its name, the options and arguments of its pipeline, its model in ZenML.

Tags cascade: ZenML puts them on what a step made, and on what it took from the cache, which then has the tags of all
runs that it belongs to. Neither they nor the model are part of a cache key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zenml import Model
from zenml.models import PipelineRunResponse
from zenml.utils.tag_utils import Tag

from mlops.ids import EXPERIMENT_TAG, REPLAY_TAG, RUN_TAG, name_of_first, next_resumed_name, resumed_name
from mlops.runs.finding import attempts_of
from mlops.runs.labels import Labels, labels_of
from mlops.runs.store import as_parameter, stored_config
from mlops.stacks.image import image_settings
from mlops.tracking.address import HOME
from rlft.config import Config


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a run is resumed: a new name, its config, the options of `train.with_options`, the arguments of `train`."""

    name: str
    config: Config
    options: dict[str, Any]
    inputs: dict[str, Any]


def run_options(config: Config, labels: Labels) -> dict[str, Any]:
    """Return what `train.with_options` takes: tags, the image, and the model version, which all attempts share."""
    experiment = config.tracking.experiment or config.name
    own = [f"{key}={value}" for key, value in labels.tags.items()]
    model = Model(
        name=config.registry_name,
        version=labels.name,
        description=labels.note or None,
        tags=own,
        save_models_to_registry=False,  # a stack's registry would get every round
    )
    shared = {EXPERIMENT_TAG: experiment, RUN_TAG: labels.name}
    cascading = [Tag(name=f"{key}={value}", cascade=True) for key, value in shared.items()]
    return {"tags": [*cascading, *own], "model": model, "settings": image_settings(config)}


def replay_options(source: str, experiment: str, labels: Labels, config: Config) -> dict[str, Any]:
    """Return what `with_options` of a replay takes: its name, the image for its config, tags, which name its source."""
    own = [f"{key}={value}" for key, value in labels.tags.items()]
    shared = {"experiment": experiment, RUN_TAG: labels.name}
    cascading = [Tag(name=f"{key}={value}", cascade=True) for key, value in shared.items()]
    tags = [*cascading, f"{REPLAY_TAG}={source}", *own]
    return {"run_name": labels.name, "tags": tags, "settings": image_settings(config)}


def pipeline_inputs(config: Config, labels: Labels, tracking_uri: str | None, *, anew: bool = False) -> dict[str, Any]:
    """Return the arguments of `train`; without an address MLflow is that of the home, wherever it lies."""
    return {
        "config": as_parameter(config),
        "tracking_uri": tracking_uri or HOME,
        "labels": labels.model_dump(mode="json"),
        "anew": anew,
    }


def resumed(
    run: PipelineRunResponse, tracking_uri: str | None, overrides: Sequence[str] = (), *, anew: bool = False
) -> Resumed:
    """Return how to resume a run: with the same model version and labels, and with MLflow where it is now.

    `overrides`, such as `promotion.looks=1`, change its config, and `anew` says that it is decided on once more. Raises
    what `stored_config` raises.
    """
    parameters = run.config.parameters or {}
    config = stored_config(parameters["config"], run.name, overrides)
    labels = labels_of(parameters.get("labels"), name_of_first(run.name))
    inputs = pipeline_inputs(config, labels, tracking_uri, anew=anew)
    on_stack = tracking_uri is not None
    attempt = next_resumed_name(labels.name, (each.name for each in attempts_of(run))) if on_stack else None
    return Resumed(attempt or resumed_name(labels.name), config, run_options(config, labels), inputs)

"""Links a run to its artifacts and its model in ZenML, by tags and by a version of the model.

Tags cascade: ZenML puts them on what a step made, and on what it took from the cache, which then has the tags of all
runs that it belongs to. Neither they nor the model are part of a cache key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zenml import Model, log_metadata
from zenml.client import Client
from zenml.enums import ModelStages
from zenml.metadata.metadata_types import MetadataType
from zenml.models import PipelineRunResponse
from zenml.utils.tag_utils import Tag

from mlops.runs.ids import RUN_TAG, name_of_first, resumed_name
from mlops.runs.labels import Labels, labels_of
from mlops.runs.summary import Summary
from mlops.tracking.address import HOME
from rlft.config import Config
from rlft.config.file import check_config

_STAGES = {"promoted": ModelStages.PRODUCTION, "rejected": ModelStages.STAGING}


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a run is resumed: a new name, its config, the options of `train.with_options`, the arguments of `train`."""

    name: str
    config: Config
    options: dict[str, Any]
    inputs: dict[str, Any]


def registry_name(config: Config) -> str:
    """Return the name of the model in MLflow's registry and in ZenML."""
    return config.promotion.name or config.name


def run_options(config: Config, labels: Labels) -> dict[str, Any]:
    """Return what `train.with_options` takes: tags, and the model version, which all attempts at a run share."""
    experiment = config.tracking.experiment or config.name
    own = [f"{key}={value}" for key, value in labels.tags.items()]
    model = Model(
        name=registry_name(config),
        version=labels.name,
        description=labels.note or None,
        tags=own,
        save_models_to_registry=False,  # a stack's registry would get every round
    )
    shared = {"experiment": experiment, RUN_TAG: labels.name}
    cascading = [Tag(name=f"{key}={value}", cascade=True) for key, value in shared.items()]
    return {"tags": [*cascading, *own], "model": model}


def pipeline_inputs(config: Config, labels: Labels, tracking_uri: str | None) -> dict[str, Any]:
    """Return the arguments of `train`; without an address MLflow is that of the home, wherever it lies."""
    return {
        "config": config.model_dump(mode="json"),
        "tracking_uri": tracking_uri or HOME,
        "labels": labels.model_dump(mode="json"),
    }


def resumed(run: PipelineRunResponse, tracking_uri: str | None) -> Resumed:
    """Return how to resume a run: with the same model version and labels, and with MLflow where it is now.

    Raises ConfigError if its config is from a version of rlft that had other settings.
    """
    parameters = run.config.parameters or {}
    config = check_config(parameters["config"], where=run.name)
    labels = labels_of(parameters.get("labels"), name_of_first(run.name))
    return Resumed(
        resumed_name(labels.name), config, run_options(config, labels), pipeline_inputs(config, labels, tracking_uri)
    )


def outcome_of(summary: Summary) -> str:
    """Return what became of a run's model: `promoted`, `rejected`, or, where none was registered, why.

    That is `failed`, `too_hard`, `already_solved`, or `not_registered` if the registry could not be reached.
    """
    promotion, status = summary.promotion, summary.status
    if promotion.version is not None:
        return "promoted" if promotion.promoted else "rejected"
    return "not_registered" if status in ("improved", "not_improved") else status


def close_model_version(run: PipelineRunResponse, summary: Summary) -> None:
    """Record on the run's model version what became of it, and which version of MLflow's registry it is.

    Its stage is `production` if promoted, `staging` if registered but not promoted, and `archived` if not registered.
    Nothing is done for a run that was started without a model.
    """
    if run.model_version is None:
        return
    version = Client().get_model_version(run.model_version.model.id, run.model_version.id)
    outcome = outcome_of(summary)
    said = f"outcome={outcome}"
    Client().update_model_version(
        version.model.id,
        version.id,
        stage=_STAGES.get(outcome, ModelStages.ARCHIVED),
        force=True,  # the version that had this stage becomes archived, instead of an error
        add_tags=[said],
        remove_tags=[tag.name for tag in version.tags if tag.name.startswith("outcome=") and tag.name != said],
    )
    log_metadata(metadata=_links(summary), model_version_id=version.id)


def _links(summary: Summary) -> dict[str, MetadataType]:
    promotion = summary.promotion
    links: dict[str, MetadataType] = {"status": summary.status}
    if summary.mlflow_run_id is not None:
        links["mlflow_run_id"] = summary.mlflow_run_id
    if promotion.version is not None:
        links["mlflow_model"] = f"models:/{promotion.name}/{promotion.version}"
        links["mlflow_alias"] = promotion.alias or ""
    return links

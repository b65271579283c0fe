"""Records on a run's model version in ZenML what became of it, and links it to MLflow's registry."""

from __future__ import annotations

from zenml import log_metadata
from zenml.client import Client
from zenml.enums import ModelStages
from zenml.metadata.metadata_types import MetadataType
from zenml.models import PipelineRunResponse

from mlops.summary.summary import Summary

_STAGES = {
    "promoted": ModelStages.PRODUCTION,
    "pending": ModelStages.STAGING,
    "rejected": ModelStages.STAGING,
}


def outcome_of(summary: Summary) -> str:
    """Return what became of a run's model: `promoted`, `pending`, `rejected`, or, where none was registered, why.

    `pending` is one that waits for a person's approval. Why none was registered is `failed`, `too_hard`,
    `already_solved`, or `not_registered` if the registry could not be reached.
    """
    promotion, status = summary.promotion, summary.status
    if promotion.version is not None:
        if promotion.approval == "pending":
            return "pending"
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

"""Versions of a policy in the MLflow registry: registers one, and says which is the newest and which is in use.

The alias `challenger` always names the newest version, `champion` the one that is in use: both may name the same
version. Here as in `logged_model` and `champion` all is done through `MlflowClient` with an address, so no global state
is read or changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from mlops.registry.logged_model import HASH_TAG, log_model, read_policy
from rlft.promotion import Decision, RegisteredVersion

log = logging.getLogger(__name__)

CHAMPION, CHALLENGER = "champion", "challenger"
RUN_TAG, MODEL_TAG = "rlft.run_id", "rlft.model_id"
DONE_TAG = "rlft.aliases_set"


def register_policy_version(
    tracking_uri: str,
    run_id: str,
    name: str,
    policy_folder: Path,
    *,
    decision: Decision,
    max_new_tokens: int = 256,
    tags: Mapping[str, str] | None = None,
    registry_uri: str | None = None,
) -> RegisteredVersion:
    """Log the policy under an existing MLflow run, register it, and set its aliases.

    It becomes `challenger`, and `champion` too if `decision.promote`. Weights that this run has registered already
    are not registered again, and aliases that were set once are not set again: a replay does not undo a rollback.
    `max_new_tokens` is the default of a request. Raises PolicyError when the folder holds no policy.
    """
    policy = read_policy(policy_folder)
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    version = _find_version(client, name, run_id, policy["weights_hash"])
    if version is None:
        model_id = log_model(client, run_id, name, policy_folder, policy, max_new_tokens)
        all_tags = {**(tags or {}), **_own_tags(run_id, policy, decision), MODEL_TAG: model_id}
        version = _create_version(client, name, run_id, model_id, all_tags)
    else:
        log.info("%s: version %s has these weights of this run already", name, version.version)
    if DONE_TAG not in version.tags:  # it is set last, so that a run that was killed before it sets the aliases again
        client.set_registered_model_alias(name, CHALLENGER, version.version)
        if decision.promote:
            client.set_registered_model_alias(name, CHAMPION, version.version)
        client.set_model_version_tag(name, version.version, DONE_TAG, "true")
    aliases = client.get_registered_model(name).aliases
    held = tuple(sorted(alias for alias, number in aliases.items() if str(number) == str(version.version)))
    return RegisteredVersion(name, str(version.version), version.tags.get(MODEL_TAG), held)


def _own_tags(run_id: str, policy: Mapping[str, Any], decision: Decision) -> dict[str, str]:
    """Return the tags that rlft itself gives to a version."""
    return {
        RUN_TAG: run_id,
        HASH_TAG: policy["weights_hash"],
        "rlft.round": str(policy.get("round", "")),
        "rlft.promote": str(decision.promote).lower(),
        "rlft.reasons": "\n".join(decision.reasons),
    }


def _find_version(client: MlflowClient, name: str, run_id: str, weights_hash: str) -> ModelVersion | None:
    """Return the version of these weights that this run has registered, or `None`."""
    query = f"name = '{name}' AND tags.`{RUN_TAG}` = '{run_id}' AND tags.`{HASH_TAG}` = '{weights_hash}'"
    found = client.search_model_versions(query, max_results=1)
    return found[0] if found else None


def _create_version(
    client: MlflowClient, name: str, run_id: str, model_id: str, tags: Mapping[str, str]
) -> ModelVersion:
    try:
        client.create_registered_model(name)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    # The usual source, models:/<id>, is looked up by the store with the global tracking address, which is another one.
    source = client.get_logged_model(model_id).artifact_location
    version = client.create_model_version(name, source=source, run_id=run_id, model_id=model_id, tags=dict(tags))
    # By this tag the page of the logged model leads to the version, as mlflow.register_model does it.
    versions = json.dumps([{"name": name, "version": int(version.version)}])
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": versions})
    return version

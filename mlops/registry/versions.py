"""Versions of a policy in the MLflow registry, and which of them is champion.

`challenger` is always the newest version, `champion` the one that is in use: both may name the same version. All is
done through `MlflowClient` with an address, so no global state is read or changed.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from mlflow import MlflowClient, pyfunc
from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import AnyType

from rlft.errors import PolicyError, StorageError
from rlft.files import link_or_copy
from rlft.promotion import Decision, RegisteredVersion

log = logging.getLogger(__name__)

CHAMPION, CHALLENGER = "champion", "challenger"
RUN_TAG, HASH_TAG, MODEL_TAG, DONE_TAG = "rlft.run_id", "rlft.weights_hash", "rlft.model_id", "rlft.aliases_set"
DEFINITION = Path(__file__).with_name("served_policy.py")
# What a server needs. The optimizer's state is as large as two copies of the weights and stays behind.
SERVED = ("policy.json", "model", "tokenizer")
REQUIREMENTS = ("mlflow", "torch", "transformers", "tokenizers", "peft", "safetensors", "pandas", "numpy")
ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}


@dataclass(frozen=True, slots=True)
class ChampionVersion:
    """The version in use. `policy_folder` is set once it has been downloaded."""

    name: str
    version: str
    weights_hash: str
    run_id: str | None
    policy_folder: Path | None = None


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
        model_id = _log_model(client, run_id, name, policy_folder, policy, max_new_tokens)
        all_tags = {**(tags or {}), **_own_tags(run_id, policy, decision), MODEL_TAG: model_id}
        version = _create_version(client, name, run_id, model_id, all_tags)
    else:
        log.info("%s: version %s has these weights of this run already", name, version.version)
    if DONE_TAG not in version.tags:
        client.set_registered_model_alias(name, CHALLENGER, version.version)
        if decision.promote:
            client.set_registered_model_alias(name, CHAMPION, version.version)
        client.set_model_version_tag(name, version.version, DONE_TAG, "true")
    aliases = client.get_registered_model(name).aliases
    held = tuple(sorted(alias for alias, number in aliases.items() if str(number) == str(version.version)))
    return RegisteredVersion(name, str(version.version), version.tags.get(MODEL_TAG), held)


def current_champion(tracking_uri: str, name: str, registry_uri: str | None = None) -> ChampionVersion | None:
    """The version that `champion` names; `None` before the first promotion. Raises what MLflow raises otherwise."""
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    try:
        number = client.get_registered_model(name).aliases.get(CHAMPION)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    if number is None:
        return None
    found = client.get_model_version(name, str(number))
    return ChampionVersion(name, str(number), found.tags.get(HASH_TAG, ""), found.tags.get(RUN_TAG))


def download_champion(
    tracking_uri: str, name: str, destination: Path, registry_uri: str | None = None
) -> ChampionVersion | None:
    """Bring the champion's policy folder to `destination`; `None` when there is no champion.

    Raises StorageError when what arrives is not what was registered.
    """
    champion = current_champion(tracking_uri, name, registry_uri)
    if champion is None:
        return None
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    files = client.get_model_version_download_uri(name, champion.version).rstrip("/")
    destination.mkdir(parents=True, exist_ok=True)
    arrived = download_artifacts(
        artifact_uri=f"{files}/artifacts/policy", dst_path=str(destination), tracking_uri=tracking_uri
    )
    folder = Path(arrived)
    _check_arrived(folder, champion)
    return ChampionVersion(name, champion.version, champion.weights_hash, champion.run_id, folder)


def _check_arrived(folder: Path, champion: ChampionVersion) -> None:
    # Imported here: it brings torch and transformers, which asking for the champion does not need.
    from rlft.policy.origin import hash_weights

    found = hash_weights(folder / "model")
    if found != champion.weights_hash:
        raise StorageError(
            f"the weights have sha256 {found[:12]}, registered were {champion.weights_hash[:12]}",
            where=f"models:/{champion.name}/{champion.version}",
            fix="the model's artifacts were changed or are incomplete; register it again, or move the alias back",
        )


def read_policy(folder: Path) -> dict[str, Any]:
    """Contents of `policy.json`. Raises PolicyError when the folder holds no policy with weights."""
    file = Path(folder) / "policy.json"
    if not file.is_file():
        raise PolicyError("no policy.json here", where=str(folder), fix="name the folder of a policy artifact")
    if not any((Path(folder) / "model").glob("*.safetensors")):
        raise PolicyError("the policy has no weights", where=str(folder), fix="keep its round (policy.keep)")
    return json.loads(file.read_text(encoding="utf-8"))


def policy_signature(max_new_tokens: int) -> ModelSignature:
    """What a registered policy takes and gives; either input column will do."""
    return ModelSignature(
        inputs=Schema(
            [
                ColSpec(AnyType(), "messages", required=False),
                ColSpec(DataType.string, "prompt", required=False),
            ]
        ),
        outputs=Schema([ColSpec(DataType.string)]),
        params=ParamSchema(
            [
                ParamSpec("max_new_tokens", DataType.long, max_new_tokens),
                ParamSpec("temperature", DataType.double, 0.0),
                ParamSpec("seed", DataType.long, 0),
            ]
        ),
    )


def pinned_requirements() -> list[str]:
    """The packages that the served model imports, at the versions installed here; local build labels are dropped."""
    return [f"{package}=={installed_version(package).split('+')[0]}" for package in REQUIREMENTS]


def _own_tags(run_id: str, policy: Mapping[str, Any], decision: Decision) -> dict[str, str]:
    return {
        RUN_TAG: run_id,
        HASH_TAG: policy["weights_hash"],
        "rlft.round": str(policy.get("round", "")),
        "rlft.promote": str(decision.promote).lower(),
        "rlft.reasons": "\n".join(decision.reasons),
    }


def _find_version(client: MlflowClient, name: str, run_id: str, weights_hash: str) -> ModelVersion | None:
    """The version of these weights that this run registered, if it did."""
    query = f"name = '{name}' AND tags.`{RUN_TAG}` = '{run_id}' AND tags.`{HASH_TAG}` = '{weights_hash}'"
    found = client.search_model_versions(query, max_results=1)
    return found[0] if found else None


def _log_model(
    client: MlflowClient,
    run_id: str,
    name: str,
    policy_folder: Path,
    policy: Mapping[str, Any],
    max_new_tokens: int,
) -> str:
    """Make a logged model of the run and upload its files; returns its id."""
    experiment_id = client.get_run(run_id).info.experiment_id
    config = {key: policy.get(key) for key in ("base_model", "base_revision", "base_hash")}
    params = {key: str(policy.get(key)) for key in ("kind", *config, "weights_hash", "round", "parent")}
    logged = client.create_logged_model(
        experiment_id, name=name, source_run_id=run_id, params=params, tags={HASH_TAG: policy["weights_hash"]}
    )
    with _files_to_serve(policy_folder) as (served, target), warnings.catch_warnings():
        # MLflow asks for an example input, and would load the model to try it; the signature says enough.
        warnings.filterwarnings("ignore", message=".*input example was not provided.*")
        pyfunc.save_model(
            str(target),
            python_model=str(DEFINITION),
            artifacts={"policy": str(served)},
            model_config=config,
            signature=policy_signature(max_new_tokens),
            pip_requirements=pinned_requirements(),
            mlflow_model=Model(run_id=run_id, model_id=logged.model_id),
        )
        client.log_model_artifacts(logged.model_id, str(target))
    client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    step = policy.get("round") or 0
    client.log_outputs(run_id, models=[LoggedModelOutput(logged.model_id, step=step)])
    return logged.model_id


@contextmanager
def _files_to_serve(policy_folder: Path) -> Iterator[tuple[Path, Path]]:
    """A temporary folder `policy` with what is served, and a path beside it for the model to be saved to."""
    with tempfile.TemporaryDirectory() as temporary:
        served = Path(temporary) / "policy"
        served.mkdir()
        for part in SERVED:
            source = Path(policy_folder) / part
            if source.is_dir():
                shutil.copytree(source, served / part, copy_function=link_or_copy)  # MLflow refuses symbolic links
            else:
                shutil.copy2(source, served / part)
        yield served, Path(temporary) / "model"


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

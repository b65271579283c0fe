"""A policy as a logged model of an MLflow run: the files that are served, their signature and their requirements."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from mlflow import MlflowClient, pyfunc
from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import AnyType

from rlft.errors import PolicyError, WeightsRemovedError
from rlft.files import file_hash, link_or_copy

HASH_TAG = "rlft.weights_hash"  # of a logged model, and of the version that is made of it
FILES_TAG = "rlft.files_hash"  # of a version: that of all its files; versions of earlier rlft have none
DEFINITION = Path(__file__).with_name("served_policy.py")
# What a server needs. The optimizer's state is as large as two copies of the weights and stays behind.
SERVED = ("policy.json", "model", "tokenizer")
_SERVED_CONFIG = ("base_model", "base_revision", "base_hash", "weights_hash")
REQUIREMENTS = ("mlflow", "torch", "transformers", "tokenizers", "peft", "safetensors", "pandas", "numpy")


def read_policy(folder: Path) -> dict[str, Any]:
    """Return the contents of `policy.json`.

    Raises PolicyError if the folder holds no policy, and WeightsRemovedError if that has no weights any more.
    """
    file = Path(folder) / "policy.json"
    if not file.is_file():
        raise PolicyError("no policy.json here", where=str(folder), fix="name the folder of a policy artifact")
    if not any((Path(folder) / "model").glob("*.safetensors")):
        raise WeightsRemovedError(
            "the weights of the policy that is to be registered were removed by policy.keep",
            where=str(folder),
            fix="keep its round (policy.keep)",
        )
    return json.loads(file.read_text(encoding="utf-8"))


def log_model(
    client: MlflowClient,
    run_id: str,
    name: str,
    policy_folder: Path,
    policy: Mapping[str, Any],
    max_new_tokens: int,
) -> str:
    """Make a logged model of the run and upload its files; returns its id.

    `name` is that of the registered model, `policy` what `read_policy` gives, and `max_new_tokens` the default of a
    request.
    """
    experiment_id = client.get_run(run_id).info.experiment_id
    params = {key: str(policy.get(key)) for key in ("kind", *_SERVED_CONFIG, "round", "parent")}
    logged = client.create_logged_model(
        experiment_id, name=name, source_run_id=run_id, params=params, tags={HASH_TAG: policy["weights_hash"]}
    )
    upload_files(client, run_id, logged.model_id, policy_folder, policy, max_new_tokens)
    client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    step = policy.get("round") or 0
    client.log_outputs(run_id, models=[LoggedModelOutput(logged.model_id, step=step)])
    return logged.model_id


def upload_files(
    client: MlflowClient,
    run_id: str,
    model_id: str,
    policy_folder: Path,
    policy: Mapping[str, Any],
    max_new_tokens: int,
) -> None:
    """Upload the files of a logged model; those that it has already are replaced."""
    with _files_to_serve(policy_folder) as (served, target), warnings.catch_warnings():
        # MLflow asks for an example input, and would load the model to try it; the signature says enough.
        warnings.filterwarnings("ignore", message=".*input example was not provided.*")
        pyfunc.save_model(
            str(target),
            python_model=str(DEFINITION),
            artifacts={"policy": str(served)},
            model_config={key: policy.get(key) for key in _SERVED_CONFIG} | {"files_hash": hash_files(served)},
            signature=policy_signature(max_new_tokens),
            pip_requirements=pinned_requirements(),
            mlflow_model=Model(run_id=run_id, model_id=model_id),
        )
        client.log_model_artifacts(model_id, str(target))


def hash_files(folder: Path) -> str:
    """Return the sha256 over path and bytes of every file of a policy that is served; others do not count."""
    digest = hashlib.sha256()
    for name in sorted(
        file.relative_to(folder).as_posix()
        for part in SERVED
        for file in (folder / part, *(folder / part).rglob("*"))
        if file.is_file()
    ):
        digest.update(f"{name} {file_hash(folder / name)}\n".encode())
    return digest.hexdigest()


@contextmanager
def _files_to_serve(policy_folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a temporary folder `policy` with what is served, and a path beside it for the model to be saved to."""
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


def policy_signature(max_new_tokens: int) -> ModelSignature:
    """Return what a registered policy takes and gives; either input column will do."""
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
    """Return the packages that the served model imports, at the versions installed here without local build labels."""
    return [f"{package}=={installed_version(package).split('+')[0]}" for package in REQUIREMENTS]

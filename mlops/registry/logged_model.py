"""A policy as a logged model of an MLflow run: its files, and whether they are still those that were registered."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from mlflow import MlflowClient, pyfunc
from mlflow.artifacts import download_artifacts, list_artifacts
from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import AnyType, Array, Object, Property

import rlft
from mlops.registry.names import FILES_TAG, FORMAT_TAG, HASH_TAG, REGISTRATION, RUN_NAME_TAG
from rlft.errors import DamagedError, PolicyError, WeightsRemovedError
from rlft.files import file_hash, link_or_copy
from rlft.types.formats import KEY, VERSION
from rlft.types.formats import POLICY as POLICY_FORMAT

PROGRAM = Path(__file__).with_name("served_policy.py")  # of a version
# What a version holds of a policy. The optimizer's state is as large as two copies of the weights and stays behind.
POLICY = ("policy.json", "model", "tokenizer")
_SERVED_CONFIG = ("base_model", "base_revision", "base_hash", "weights_hash")
EXAMPLE = {"messages": [{"role": "user", "content": "What do you answer?"}]}
REQUIREMENTS = ("mlflow", "torch", "transformers", "tokenizers", "peft", "safetensors", "pandas", "numpy")


def read_policy(folder: Path) -> dict[str, Any]:
    """Return the contents of `policy.json`.

    Raises PolicyError if the folder holds no policy, WeightsRemovedError if that has no weights any more, and
    FormatVersionError for a format that is not read.
    """
    file = Path(folder) / "policy.json"
    if not file.is_file():
        raise PolicyError("no policy.json here", where=str(folder), fix="name the folder of a policy artifact")
    if not any((Path(folder) / "model").glob("*.safetensors")):
        raise WeightsRemovedError(
            "the weights of the policy that is to be registered are not there; policy.keep removes those of old rounds",
            where=str(folder),
            fix="keep its round (policy.keep)",
        )
    stored = json.loads(file.read_text(encoding="utf-8"))
    POLICY_FORMAT.check(stored.get(KEY), where=str(file))
    return stored


@dataclass(frozen=True)
class ServedFiles:
    """What is stored as a logged model: a policy folder, and texts beside it by the names of their files.

    These say what the environment shows, and what the version was made from and is worth. `max_new_tokens` is the
    default of a request.
    """

    policy_folder: Path
    description: Mapping[str, str] = field(default_factory=dict)
    max_new_tokens: int = 256

    @cached_property
    def policy(self) -> dict[str, Any]:
        """The contents of `policy.json`; raises as `read_policy` does."""
        return read_policy(self.policy_folder)


def log_model(client: MlflowClient, run_id: str, name: str, files: ServedFiles) -> tuple[str, str]:
    """Make a logged model of the run and upload its files; returns its id, and the hash of the files.

    `name` is that of the registered model.
    """
    policy, experiment_id = files.policy, client.get_run(run_id).info.experiment_id
    params = {key: str(policy.get(key)) for key in ("kind", *_SERVED_CONFIG, "round", "parent")}
    logged = client.create_logged_model(
        experiment_id, name=name, source_run_id=run_id, params=params, tags={HASH_TAG: policy["weights_hash"]}
    )
    files_hash = upload_files(client, run_id, logged.model_id, files)
    client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    step = policy.get("round") or 0
    client.log_outputs(run_id, models=[LoggedModelOutput(logged.model_id, step=step)])
    return logged.model_id, files_hash


def upload_files(client: MlflowClient, run_id: str, model_id: str, files: ServedFiles) -> str:
    """Upload the files of a logged model, and return their hash."""
    with _files_to_serve(files) as (served, target):
        known = Model(run_id=run_id, model_id=model_id)
        files_hash = save_model(target, served, files.policy, policy_signature(files.max_new_tokens), known)
        client.log_model_artifacts(model_id, str(target))
    return files_hash


def save_model(
    target: Path, served: Path, policy: Mapping[str, Any], signature: ModelSignature, known: Model | None = None
) -> str:
    """Write a model of MLflow's into the new folder `target`, with the program of this rlft; returns its files' hash.

    `served` holds the files of a policy, `policy` is its `policy.json`, `known` what MLflow knows of the model already.
    """
    files_hash, program = hash_files(served), target.with_name(PROGRAM.name)
    program.write_text(program_text(), encoding="utf-8")
    pyfunc.save_model(
        str(target),
        python_model=str(program),
        artifacts={"policy": str(served)},
        model_config={key: policy.get(key) for key in _SERVED_CONFIG} | {"files_hash": files_hash},
        signature=signature,
        input_example=EXAMPLE,
        pip_requirements=pinned_requirements(),
        mlflow_model=known,
    )
    return files_hash


def program_text() -> str:
    """Return the program of a version, with the text of `marks` for its import: it runs without rlft."""
    marks = (Path(rlft.__file__).parent / "harness" / "chat" / "marks.py").read_text(encoding="utf-8")
    return PROGRAM.read_text(encoding="utf-8").replace("from rlft.harness.chat.marks import Marks\n", marks)


def hash_files(folder: Path) -> str:
    """Return the sha256 over path and bytes of every file of a policy that is served."""
    digest = hashlib.sha256()
    for name in sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()):
        digest.update(name.encode("unicode_escape") + f" {file_hash(folder / name)}\n".encode())  # one line each
    return digest.hexdigest()


@contextmanager
def _files_to_serve(files: ServedFiles) -> Iterator[tuple[Path, Path]]:
    """Yield temporary paths: the folder `policy`, and one beside it for the model to be saved to."""
    with tempfile.TemporaryDirectory() as temporary:
        served = Path(temporary) / "policy"
        served.mkdir()
        for part in POLICY:
            source = files.policy_folder / part
            if source.is_dir():
                shutil.copytree(source, served / part, copy_function=link_or_copy)  # MLflow refuses symbolic links
            else:
                shutil.copy2(source, served / part)
        for name, text in files.description.items():
            (served / name).write_text(text, encoding="utf-8")
        yield served, Path(temporary) / "model"


def policy_signature(max_new_tokens: int) -> ModelSignature:
    """Return what a registered policy takes and gives: conversations, or prompts, and a text for each."""
    optional = {"content": AnyType(), "tool_calls": AnyType(), "tool_call_id": DataType.string, "name": DataType.string}
    message = Object(
        [
            Property("role", DataType.string),
            *(Property(name, kind, required=False) for name, kind in optional.items()),
        ]
    )
    return ModelSignature(
        inputs=Schema(
            [
                ColSpec(Array(message), "messages", required=False),
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


def check_files(folder: Path, tags: Mapping[str, str], where: str) -> None:
    """Raise DamagedError if a policy folder does not hold what was registered with these tags, or FormatVersionError.

    `where` names it to the user.
    """
    VERSION.check(tags.get(FORMAT_TAG), where=where)
    if (found := hash_files(folder)) != (expected := tags[FILES_TAG]):
        what = f"the files have sha256 {found[:12]}, registered were {expected[:12]}"
        raise DamagedError(what, where=where, run=tags.get(RUN_NAME_TAG, ""), step=REGISTRATION)


def check_version(client: MlflowClient, version: ModelVersion, destination: Path | None = None) -> Path:
    """Return the policy folder of a version. Files far away are downloaded to `destination`; without it those on this
    machine are read where they lie.

    Raises DamagedError if the files are gone or not those that were registered, and what MLflow raises if the place
    where they lie does not answer.
    """
    where = f"models:/{version.name}/{version.version}"
    files = client.get_model_version_download_uri(version.name, version.version).rstrip("/") + "/artifacts/policy"
    try:
        folder = download_artifacts(
            artifact_uri=files,
            dst_path=str(destination) if destination else None,
            tracking_uri=client.tracking_uri,
        )
    except (MlflowException, OSError) as cause:
        list_artifacts(artifact_uri=files, tracking_uri=client.tracking_uri)  # fails if the place does not answer
        what = f"the files of this version cannot be read: {cause}"
        raise DamagedError(what, where=where, run=version.tags.get(RUN_NAME_TAG, ""), step=REGISTRATION) from cause
    check_files(Path(folder), version.tags, where)
    return Path(folder)


def damage_of(client: MlflowClient, version: ModelVersion) -> DamagedError | None:
    """Return why the files of a version are not those that were registered; `None` if they are."""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            check_version(client, version, Path(temporary))
        except DamagedError as damage:
            return damage
    return None

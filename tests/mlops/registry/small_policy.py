"""A policy with next to nothing in it, which is registered quickly and cannot answer."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from mlops.registry.client import RegistryClient
from mlops.registry.logged_model import ServedFiles
from mlops.registry.versions import register_policy_version
from rlft.evaluation.promotion import Decision, RegisteredVersion
from rlft.models.origin import hash_weights
from tests.mlflow_stores import new_store


def write_small_policy(folder: Path, seed: int) -> Path:
    """A policy folder whose one weight is the seed."""
    for part in ("model", "tokenizer"):
        (folder / part).mkdir(parents=True)
    save_file({"weight": torch.tensor([float(seed)])}, folder / "model" / "model.safetensors")
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    given = {"kind": "full", "base_model": None, "base_revision": None, "base_hash": None, "dtype": "float32"}
    given |= {"round": 1, "parent": None, "weights_hash": hash_weights(folder / "model")}
    (folder / "policy.json").write_text(json.dumps({"format": 1, **given}))
    return folder


class SmallRegistry:
    """A registry in a folder with versions of small policies of one name."""

    def __init__(self, folder: Path, name: str = "small", address: str | None = None) -> None:
        self.folder, self.name = folder, name
        self.client = RegistryClient(address or new_store(folder))
        location = None if address else f"file:{folder}/mlflow-artifacts"
        self.experiment = self.client.create_experiment(name, artifact_location=location)

    def register(self, promote: bool = True, **options) -> RegisteredVersion:
        """Register another policy of another run."""
        seed = 1 + len(list(self.folder.glob("policy-*")))
        folder = write_small_policy(self.folder / f"policy-{seed}", seed)
        return self.again(folder, self.client.create_run(self.experiment).info.run_id, promote, **options)

    def again(self, folder: Path, run_id: str, promote: bool = True, **options) -> RegisteredVersion:
        """Register a policy of a run, which may have been registered before."""
        decision = Decision(promote, ("passes: base",) if promote else ("fails: base",))
        address = self.client.tracking_uri
        return register_policy_version(address, run_id, self.name, ServedFiles(folder), decision, **options)

    def champion(self) -> str | None:
        """The version that `champion` names."""
        named = self.client.get_registered_model(self.name).aliases.get("champion")
        return None if named is None else str(named)

    def weights(self, version: str) -> Path:
        """The file of weights of a version, on this machine."""
        files = self.client.get_model_version_download_uri(self.name, version).removeprefix("file://")
        return Path(files) / "artifacts" / "policy" / "model" / "model.safetensors"

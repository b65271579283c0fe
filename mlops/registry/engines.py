"""Starts an engine with a version, on a port of loopback: `vllm serve`, or `mlflow models serve`."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from mlflow.artifacts import download_artifacts
from mlflow.models import Model

from mlops.registry.client import NamedVersion, RegistryClient, download_version
from mlops.registry.logged_model import policy_signature, save_model
from mlops.tracking.address import PATIENT_HTTP, answering
from rlft.engines.server_process import Child, free_port

logger = logging.getLogger(__name__)
EngineName = Literal["vllm", "mlflow"]
# What may be asked of each; vLLM has other routes, by which programs are loaded.
PATHS: dict[EngineName, frozenset[str]] = {
    "vllm": frozenset({"/v1/chat/completions", "/v1/completions"}),
    "mlflow": frozenset({"/invocations", "/ping", "/version"}),
}
_START_SECONDS = 600.0  # that an engine may take to load a model
# How vLLM calls the reader of the tool calls that rlft's formats write.
PARSERS = {"hermes": "hermes", "llama3": "llama3_json", "mistral": "mistral"}


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version with its files at hand.

    `alias` is the one by which it was named, if any. `folder` is an export of it (`rlft.models.export`), or a model of
    MLflow's with the program of this rlft: what lies in the version may be anybody's. `context` is its `context.json`,
    empty where there is none. `dtype` is the data type of the policy.
    """

    name: str
    number: str
    alias: str | None
    weights_hash: str
    model_id: str | None
    folder: Path
    context: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def names(self) -> frozenset[str]:
        """The names by which a request may ask for it."""
        short = {self.name, f"{self.name}/{self.number}"} | ({f"{self.name}@{self.alias}"} if self.alias else set())
        return frozenset({*short, *(f"models:/{name}" for name in short)})


@dataclass(frozen=True, slots=True)
class Backend:
    """A version at an engine of this machine.

    `address` is the engine's, `model` its own name of the version, and `key` what it asks of a request. `reads_calls`
    says whether it makes tool calls of what the model writes.
    """

    version: ServedVersion
    engine: EngineName
    child: Child
    address: str
    model: str
    key: str | None = None
    reads_calls: bool = False
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    def as_json(self) -> dict[str, Any]:
        """Return the answer of `/rlft/version`."""
        version = self.version
        return {
            "name": version.name,
            "version": version.number,
            "alias": version.alias,
            "weights_sha256": version.weights_hash,
            "environments": list(version.context.get("members") or {}),
            "engine": self.engine,
            "since": self.since.isoformat(timespec="seconds"),
        }


def prepare(
    tracking_uri: str, found: NamedVersion, alias: str | None, place: Path, *, export: bool, merge: bool = False
) -> ServedVersion:
    """Download a version to the folder `place`, check its files, and write them as what vLLM loads (`export`), or
    MLflow's server.

    Raises DamagedError, PolicyError and StorageError as an export does, and TrackerError if the registry does not
    answer.
    """
    with answering(tracking_uri, PATIENT_HTTP):
        source = download_version(tracking_uri, found.name, found.version, place / "version")
        place_of = RegistryClient(tracking_uri).get_model_version_download_uri
        own = None if export else f"{place_of(found.name, found.version).rstrip('/')}/MLmodel"
        info = own and Model.load(download_artifacts(own, dst_path=str(place), tracking_uri=tracking_uri))
    shown = source / "context.json"
    context = json.loads(shown.read_text(encoding="utf-8")) if shown.is_file() else {}
    folder, policy = place / "served", json.loads((source / "policy.json").read_text(encoding="utf-8"))
    if not info:
        from rlft.models import PolicyFolder
        from rlft.models.export import write_export

        folder.mkdir()
        write_export(PolicyFolder(source), folder, merge=merge)
    else:
        assert info.signature is not None
        longest = next(each.default for each in info.signature.params or () if each.name == "max_new_tokens")
        save_model(folder, source, policy, policy_signature(int(longest)))
    if note := context.get("note"):
        logger.warning("version %s of %s: %s", found.version, found.name, note)
    context = context if export else {}  # MLflow's server applies it itself
    known = (found.name, found.version, alias, found.weights_hash, found.model_id)
    return ServedVersion(*known, folder, context, str(policy["dtype"]))


def start_vllm(version: ServedVersion, extra: Sequence[str] = ()) -> Backend:
    """Start vLLM for a version; `extra` options are passed to `vllm serve` as they are.

    Raises EngineError if it does not start.
    """
    from rlft.engines.serving import serve_export_command

    port, key, model = free_port(), secrets.token_urlsafe(24), f"{version.name}/{version.number}"
    parser = tool_parser(version.context)
    extra = [*(["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []), *extra]
    command, variables = serve_export_command(version.folder, model=model, port=port, dtype=version.dtype, extra=extra)
    child = Child("vLLM", command, {**variables, "VLLM_API_KEY": key}, version.folder.parent / "vllm.log")
    reads = any(option.startswith("--tool-call-parser") for option in extra)
    made = Backend(version, "vllm", child, f"http://127.0.0.1:{port}", model, key, reads)
    return _healthy(made, "/health")


def start_mlflow(version: ServedVersion, tracking_uri: str) -> Backend:
    """Start `mlflow models serve` for a version, in the environment that rlft runs in. Raises as `start_vllm` does."""
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(version.folder), "--env-manager", "local"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    variables = {"MLFLOW_TRACKING_URI": tracking_uri, "MLFLOW_REGISTRY_URI": tracking_uri}
    # It looks for `uvicorn`, which lies beside this Python, whether the environment is activated or not.
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    child = Child("MLflow's server", command, variables, version.folder.parent / "mlflow.log")
    made = Backend(version, "mlflow", child, f"http://127.0.0.1:{port}", f"models:/{version.name}/{version.number}")
    return _healthy(made, "/ping")


def tool_parser(context: Mapping[str, Any]) -> str | None:
    """Return vLLM's name of the reader for a version's calls; `None` if it has none, or the version calls no tools.

    One that was trained in several environments calls tools if any of them has some.
    """
    calls = any(each.get("tools") for each in (context, *(context.get("members") or {}).values()))
    return PARSERS.get(str(context.get("tool_format"))) if calls else None


def _healthy(made: Backend, path: str) -> Backend:
    """Return an engine once it answers; one that does not in time is ended."""
    try:
        made.child.wait_until_healthy(made.address + path, _START_SECONDS, threading.Event())
    except BaseException:
        made.child.stop()
        raise
    return made

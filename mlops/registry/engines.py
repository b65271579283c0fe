"""An engine that has a version: starts one, or gives the version to one that runs already."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from mlflow.artifacts import download_artifacts
from mlflow.models import Model

from mlops.registry.client import NamedVersion, RegistryClient, download_version, find_version
from mlops.registry.logged_model import policy_signature, save_model
from mlops.tracking.address import PATIENT_HTTP, answering
from rlft.engines.child import Child, free_port
from rlft.errors import EngineError
from rlft.temporary import folder_prefix, remove_left_behind

KIND = "serve"  # of the temporary folders


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version with its files at hand.

    `alias` is the one by which it was named, if any. `folder` is an export of it (`rlft.export`), or a model of
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


def find(tracking_uri: str, name: str, alias: str | None, number: str | None) -> NamedVersion:
    """Return the version that an alias names now, or that has this number; asked with short waits.

    Raises RlftError if it is not there, and TrackerError if the registry does not answer.
    """
    with answering(tracking_uri, PATIENT_HTTP):
        return find_version(tracking_uri, name, alias, number)


def prepare(tracking_uri: str, found: NamedVersion, alias: str | None, *, export: bool, merge: bool) -> ServedVersion:
    """Download a version, check its files, and write them as what vLLM loads (`export`), or MLflow's server.

    The files are in a temporary folder, which `discard` removes, or after a kill the next call. Raises DamagedError,
    PolicyError and StorageError as an export does, and TrackerError if the registry does not answer.
    """
    remove_left_behind(KIND)
    place = Path(tempfile.mkdtemp(prefix=folder_prefix(KIND)))
    with answering(tracking_uri, PATIENT_HTTP):
        source = download_version(tracking_uri, found.name, found.version, place / "version")
        place_of = RegistryClient(tracking_uri).get_model_version_download_uri
        own = None if export else f"{place_of(found.name, found.version).rstrip('/')}/MLmodel"
        info = own and Model.load(download_artifacts(own, dst_path=str(place), tracking_uri=tracking_uri))
    shown = source / "context.json"
    context = json.loads(shown.read_text(encoding="utf-8")) if shown.is_file() else {}
    folder, policy = place / "served", json.loads((source / "policy.json").read_text(encoding="utf-8"))
    if not info:
        from rlft.export.folder import write_export
        from rlft.policy import PolicyFolder

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


logger = logging.getLogger(__name__)
_LOOKS_EVERY = 0.2  # seconds between looks whether a version has answered its last request
_LOAD_SECONDS = 120.0  # for an adapter
# How vLLM calls the reader of the tool calls that rlft's formats write.
PARSERS = {"hermes": "hermes", "llama3": "llama3_json", "mistral": "mistral"}


@dataclass(eq=False)
class Backend:
    """A version at an engine of this machine.

    `address` is the engine's, `model` its own name of the version, and `key` what it asks of a request. `reads_calls`
    says whether it makes tool calls of what the model writes. `release` frees what the version takes: the program, or
    the adapter in a program that goes on with another version.
    """

    version: ServedVersion
    child: Child
    address: str
    model: str
    key: str | None
    reads_calls: bool
    release: Callable[[], None]
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    in_flight: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request to the engine."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    async def released(self) -> None:
        """Wait until the last request is answered, and free the version."""
        while self.in_flight:
            await asyncio.sleep(_LOOKS_EVERY)
        await asyncio.to_thread(self.release)


@dataclass
class Vllm:
    """Versions at vLLM: as an adapter on its base, or merged into it with `merge`.

    `extra` options are passed to `vllm serve` as they are. `within` is how long a start may take, in seconds. vLLM has
    room for so many `adapters`: two where one is loaded beside another.
    """

    tracking_uri: str
    merge: bool = False
    extra: Sequence[str] = ()
    within: float = 600.0
    adapters: int = 1
    children: list[Child] = field(default_factory=list, init=False)
    paths: frozenset[str] = field(default=frozenset({"/v1/chat/completions", "/v1/completions"}), init=False)

    def start(self, found: NamedVersion, alias: str | None, stop: threading.Event) -> Backend:
        """Start vLLM for a version. Raises EngineError, RlftError and StoppedError."""
        from rlft.engines.serving import serve_export_command

        version = prepare(self.tracking_uri, found, alias, export=True, merge=self.merge)
        port, key, model = free_port(), secrets.token_urlsafe(24), f"{version.name}/{version.number}"
        parser = tool_parser(version.context)
        extra = [*(["--enable-auto-tool-choice", "--tool-call-parser", parser] if parser else []), *self.extra]
        command, variables = serve_export_command(
            version.folder, model=model, port=port, dtype=version.dtype, adapters=self.adapters, extra=extra
        )
        child = Child("vLLM", command, {**variables, "VLLM_API_KEY": key}, version.folder.parent / "vllm.log")
        self.children.append(child)
        reads = any(option.startswith("--tool-call-parser") for option in extra)
        made = Backend(version, child, f"http://127.0.0.1:{port}", model, key, reads, lambda: _end(child, version))
        return _healthy(made, "/health", self.within, stop)

    def beside(self, running: Backend, found: NamedVersion, alias: str | None, stop: threading.Event) -> Backend:
        """Load another version while one is served: into the same vLLM where both are adapters on one base and fit.

        Else another vLLM is started. The one that both share is freed with the version that is freed last. Raises as
        `start` does.
        """
        if self.merge or self.adapters < 2 or not _settings(running.version.folder):
            return self.start(found, alias, stop)
        version = prepare(self.tracking_uri, found, alias, export=True, merge=False)
        if not _fits(version, running.version):
            discard(version)
            return self.start(found, alias, stop)
        model, folder = f"{version.name}/{version.number}", str(version.folder)
        try:
            _ask(running, "/v1/load_lora_adapter", {"lora_name": model, "lora_path": folder})
        except BaseException:
            discard(version)
            raise
        child, free_old = running.child, running.release

        def release_old() -> None:
            _ask(running, "/v1/unload_lora_adapter", {"lora_name": running.model})
            discard(running.version)

        def release() -> None:
            free_old()  # ends the program that both share
            discard(version)

        running.release = release_old
        return Backend(version, child, running.address, model, running.key, running.reads_calls, release)


@dataclass
class MlflowServer:
    """Versions at `mlflow models serve`, in the environment that rlft runs in."""

    tracking_uri: str
    within: float = 600.0
    children: list[Child] = field(default_factory=list, init=False)
    paths: frozenset[str] = field(default=frozenset({"/invocations", "/ping", "/version"}), init=False)

    def start(self, found: NamedVersion, alias: str | None, stop: threading.Event) -> Backend:
        """Start MLflow's server for a version. Raises EngineError, RlftError and StoppedError."""
        version = prepare(self.tracking_uri, found, alias, export=False, merge=False)
        port, model = free_port(), f"models:/{version.name}/{version.number}"
        command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(version.folder)]
        command += ["--env-manager", "local"]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        variables = {"MLFLOW_TRACKING_URI": self.tracking_uri, "MLFLOW_REGISTRY_URI": self.tracking_uri}
        # It looks for `uvicorn`, which lies beside this Python, whether the environment is activated or not.
        variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        child = Child("MLflow's server", command, variables, version.folder.parent / "mlflow.log")
        self.children.append(child)
        made = Backend(version, child, f"http://127.0.0.1:{port}", model, None, False, lambda: _end(child, version))
        return _healthy(made, "/ping", self.within, stop)

    def beside(self, running: Backend, found: NamedVersion, alias: str | None, stop: threading.Event) -> Backend:
        """Start another server for another version; the one that runs goes on. Raises as `start` does."""
        del running
        return self.start(found, alias, stop)


Engine = Vllm | MlflowServer


def tool_parser(context: Mapping[str, Any]) -> str | None:
    """Return vLLM's name of the reader for a version's calls; `None` if it has none, or the version calls no tools.

    One that was trained in several environments calls tools if any of them has some.
    """
    calls = any(each.get("tools") for each in (context, *(context.get("members") or {}).values()))
    return PARSERS.get(str(context.get("tool_format"))) if calls else None


def _healthy(made: Backend, path: str, within: float, stop: threading.Event) -> Backend:
    """Return an engine once it answers; one that does not in time is ended."""
    try:
        made.child.wait_until_healthy(made.address + path, within, stop)
    except BaseException:
        made.release()
        raise
    return made


def _end(child: Child, version: ServedVersion) -> None:
    child.stop()
    discard(version)


def discard(version: ServedVersion) -> None:
    """Remove the files of a version that is served no more."""
    shutil.rmtree(version.folder.parent, ignore_errors=True)


def _settings(folder: Path) -> dict[str, Any]:
    file = folder / "adapter_config.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _fits(new: ServedVersion, old: ServedVersion) -> bool:
    """Return whether a vLLM that was started for one adapter can take the other, with the same tokens and tools."""
    from rlft.engines.vllm_process import rank_that_holds

    mine, theirs = _settings(new.folder), _settings(old.folder)
    same = ("base_model_name_or_path", "revision")
    return (
        bool(mine)
        and all(mine.get(key) == theirs.get(key) for key in same)
        and rank_that_holds(mine["r"]) <= rank_that_holds(theirs["r"])
        and new.dtype == old.dtype
        and _others(new.folder) == _others(old.folder)
        and tool_parser(new.context) == tool_parser(old.context)
    )


def _others(folder: Path) -> dict[str, bytes]:
    """Return the files of tokenizer, chat template and generation, by name: one vLLM has one set of them."""
    own = {"adapter_config.json", "adapter_model.safetensors", "README.md", "context.json"}
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name not in own}


def _ask(backend: Backend, path: str, body: dict[str, Any]) -> None:
    try:
        answer = httpx.post(
            backend.address + path, json=body, headers=backend.headers, timeout=_LOAD_SECONDS, trust_env=False
        )
    except httpx.HTTPError as cause:
        raise EngineError(f"vLLM does not answer: {type(cause).__name__}", where=path) from cause
    if answer.status_code != 200:
        raise EngineError(f"vLLM refuses: {answer.text[:300]}", where=path)

"""The vLLM servers that a process has started for its judges, which weights they have, and where they are found.

A judge may be asked in any thread, and in any worker process of the one that has started its server. So addresses are
in an environment variable, and so is the key, without which a server answers nobody.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from rlft.engines.child import Child, free_port
from rlft.engines.kinds.base import is_installed
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several, specification_of
from rlft.errors import EngineError, EnvironmentSetupError
from rlft.rewards.specification.judge import JudgeSettings
from rlft.temporary import folder_prefix, remove_left_behind
from rlft.texts.secrets import resolve

_COUNTS = (".safetensors", ".json", ".jinja", ".model", ".txt")  # endings of what a model is made of
_COMMIT = "commit "


def named_weights(model: str, revision: str | None) -> str:
    """Return `commit HASH` for a model of the hub, and `sha256 HASH` over the names and bytes of a folder's files.

    Nothing but the config of a model of the hub is downloaded. Raises EnvironmentSetupError for one that is not there.
    """
    folder = Path(model)
    if folder.is_dir():
        files = sorted(each for each in folder.iterdir() if each.suffix in _COUNTS and each.is_file())
        stats = [(each, each.stat()) for each in files]
        return f"sha256 {_hash_of(tuple((str(each), stat.st_size, stat.st_mtime_ns) for each, stat in stats))}"
    from transformers import AutoConfig

    try:
        commit = AutoConfig.from_pretrained(model, revision=revision)._commit_hash
    except (OSError, ValueError, KeyError) as cause:
        raise EnvironmentSetupError(
            f"the model {model!r} of the judge is no folder, and not on the hub as far as this machine can see: "
            f"{next(iter(str(cause).strip().splitlines()), type(cause).__name__)}",
            where="reward.spec: judge.model",
            fix="name a folder with config.json, tokenizer and *.safetensors, or a model on the hub",
        ) from cause
    return f"{_COMMIT}{commit or revision or 'unknown'}"


def commit_in(weights: str) -> str | None:
    """Return the commit of a model of the hub; `None` for a folder."""
    return weights.removeprefix(_COMMIT) if weights.startswith(_COMMIT) else None


@lru_cache(maxsize=8)
def _hash_of(files: tuple[tuple[str, int, int], ...]) -> str:
    """Return the sha256 over the files of these paths; sizes and times say whether it is known already."""
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{Path(path).name}\0{size}\0".encode())
        with Path(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


logger = logging.getLogger(__name__)
VARIABLE, KEY_VARIABLE = "RLFT_JUDGE_SERVERS", "RLFT_JUDGE_KEY"
KEY = f"env:{KEY_VARIABLE}"
_KIND = "judge"  # of temporary folders
_WHERE = "reward.spec: judge"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs: its address with `/v1`, and its model's weights, as `named_weights` says it."""

    address: str
    weights: str


def running(settings: JudgeSettings) -> Server | None:
    """Return the server that this process, or the one that has started it, runs for a judge, if there is one."""
    found = _noted().get(settings.server_name)
    return None if found is None else Server(**found)


def weights_of(settings: JudgeSettings) -> str | None:
    """Return which weights a judge has; `None` behind an endpoint, of which nobody knows it.

    Raises EnvironmentSetupError for a model that is not there.
    """
    if settings.engine is None:
        return None
    server = running(settings)
    return named_weights(settings.model, settings.revision) if server is None else server.weights


class JudgeServers:
    """Starts a vLLM for each judge that has no endpoint, at most one for equal settings; a context that ends them.

    They end with this process, too, however that ends.
    """

    def __init__(self) -> None:
        self._children: dict[str, Child] = {}
        self._stop = threading.Event()

    def __enter__(self) -> JudgeServers:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the servers."""
        self.close()

    def start_for(self, environment: BaseEnv) -> None:
        """Start what the judges of an environment, or of several, need. Raises as `start` does."""
        for member in environment.members.values() if isinstance(environment, Several) else [environment]:
            specification = specification_of(member)
            if specification is not None and specification.judge is not None:
                self.start(specification.judge)

    def start(self, settings: JudgeSettings) -> None:
        """Start the vLLM of a judge and wait until it answers, if it has no endpoint and none runs.

        Raises EngineError if vLLM is not installed or does not start, and what `serve_judge_command` raises.
        """
        name = settings.server_name
        if settings.engine is None or running(settings) is not None:
            return
        if not is_installed("vllm"):
            raise EngineError(
                "vLLM is not installed", where=f"{_WHERE}.engine", fix="make setup-vllm, or name a judge.endpoint"
            )
        from rlft.engines.serving import serve_judge_command

        remove_left_behind(_KIND)
        weights, port, started = named_weights(settings.model, settings.revision), free_port(), time.perf_counter()
        folder = Path(tempfile.mkdtemp(prefix=folder_prefix(_KIND)))
        command, variables = serve_judge_command(settings, commit_in(weights), folder, port=port)
        logger.info("starting vLLM for the judge %s", settings.model)
        variables["VLLM_API_KEY"] = _key()
        child = self._children[name] = Child("the judge's vLLM", command, variables, folder / "vllm.log")
        try:
            child.wait_until_healthy(f"http://127.0.0.1:{port}/health", settings.started.start_seconds, self._stop)
        except EngineError as failed:
            self._end(name)
            raise EngineError(
                failed.what,
                where=f"{_WHERE}.engine",
                fix="mend what they name; for more room lower judge.vllm.max_model_len, or raise cache_gib (on a CPU) "
                "or gpu_memory_utilization",
            ) from failed
        _note(name, Server(f"http://127.0.0.1:{port}/v1", weights))
        logger.info("the judge's vLLM answers, after %.0f s", time.perf_counter() - started)

    def close(self) -> None:
        """End all that were started here."""
        for name in list(self._children):
            self._end(name)

    def _end(self, name: str) -> None:
        _note(name, None)
        child = self._children.pop(name)
        child.stop()
        shutil.rmtree(child.log.parent, ignore_errors=True)


@contextmanager
def judging(environment: BaseEnv) -> Iterator[None]:
    """Let the judges of an environment answer within this context. Raises as `JudgeServers.start` does."""
    with JudgeServers() as servers:
        servers.start_for(environment)
        yield


def _noted() -> dict[str, dict[str, str]]:
    return json.loads(os.environ.get(VARIABLE) or "{}")


def _note(name: str, server: Server | None) -> None:
    known = {key: value for key, value in _noted().items() if key != name}
    os.environ[VARIABLE] = json.dumps(known if server is None else {**known, name: asdict(server)})


def _key() -> str:
    """Return the key of this process's servers, which is made once and shown in no text."""
    os.environ.setdefault(KEY_VARIABLE, secrets.token_urlsafe(24))
    return str(resolve(KEY, _WHERE))

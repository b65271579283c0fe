"""Starts Ray on this machine for one run: on loopback alone, with a token, without a dashboard to be opened."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlft.errors import DistributedError
from rlft.temporary import folder_prefix, remove_left_behind

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OBJECTS = 512 << 20
"""Bytes that Ray keeps free in memory for what it hands to workers: a round's rollouts."""


def is_installed() -> bool:
    """Return whether Ray can be imported, without importing it."""
    spec = importlib.util.find_spec("ray")
    return spec is not None and spec.origin is not None  # a folder called `ray` has no origin


class Cluster:
    """Ray, started on this machine with `cores` and `gpus` to give away; `folder` is its own, readable by this user."""

    def __init__(self, *, cores: int, gpus: int) -> None:
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            raise DistributedError("this process has started Ray already", where="distributed", fix="end that first")
        remove_left_behind("ray")
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix("ray")))
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        try:
            with _environment(_variables(token)), _handlers_kept():
                self.ray = _start(self.folder, cores, gpus)
        except Exception as cause:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise DistributedError(
                f"Ray does not start: {type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]:.300}",
                where="distributed",
                fix="look whether this machine is short of memory, or remove `distributed`",
            ) from cause

    def close(self) -> None:
        """End Ray and all that runs in it."""
        with _handlers_kept():
            self.ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def _variables(token: Path) -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        # As on other systems, where Ray has no cluster: every port is on 127.0.0.1.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",  # 15 otherwise: anything else on the machine would come before the training
    }


def _start(folder: Path, cores: int, gpus: int) -> Any:
    # Imported here, because it need not be installed.
    ray: Any = importlib.import_module("ray")
    _read_variables_again()
    ray.init(
        address="local",
        num_cpus=cores,
        num_gpus=gpus,
        object_store_memory=_OBJECTS,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.ERROR,
        _temp_dir=str(folder),
    )
    return ray


def _read_variables_again() -> None:
    """Have Ray follow `_variables`, which it has read before if this process has imported it, as vLLM does."""
    internals: Any = importlib.import_module("ray._raylet")
    internals.Config.initialize("")
    internals.AuthenticationTokenLoader.instance().reset_cache()
    constants: Any = importlib.import_module("ray._private.ray_constants")
    constants.ENABLE_RAY_CLUSTER = False


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment inside the context, for Ray's processes and no others."""
    before = dict(os.environ)
    for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS"):  # of another cluster
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:  # Ray has added some of its own
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keep the handlers of signals that this process has: Ray replaces that of SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)

"""Whether what a team's stack file names is there: ZenML's server and the login, secrets, the store, MLflow's server.

Each thing that is missing is a StackError with the way out, before anybody waits for a run.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from mlops.stacks.in_the_clear import is_unencrypted
from mlops.stacks.stack import check_tracking_address
from rlft.errors import StackError
from rlft.secrets import redact

logger = logging.getLogger(__name__)

_REFERENCE = re.compile(r"\{\{\s*([^.{}]+?)\.([^.{}]+?)\s*\}\}")
_SECONDS = 10.0
_PRIVATE = "mlflow"  # the secret of which everybody has their own, as MLflow then knows who does what


def check_server(address: str) -> None:
    """Raise StackError unless the user's ZenML is logged in to the server at this address, which has our version."""
    from zenml import __version__
    from zenml.client import Client
    from zenml.config.global_config import GlobalConfiguration
    from zenml.exceptions import AuthorizationException

    used = GlobalConfiguration().store_configuration.url
    login = f"zenml login {redact(address)}"
    if used.rstrip("/") != address.rstrip("/"):
        other = "no server" if used.startswith("sqlite") else used
        raise StackError(
            f"this stack is one of {redact(address)}, and your ZenML uses {redact(other)}", where="server", fix=login
        )
    _check_version("ZenML", f"{address.rstrip('/')}/api/v1/info", __version__, "server")
    try:
        _ = Client().active_user  # asks the server
    except (AuthorizationException, RuntimeError, KeyError) as cause:
        raise StackError(
            f"ZenML's server does not know you: {_line(cause)}", where="server", fix=f"{login} --refresh"
        ) from None


def check_secrets(configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise StackError for a secret that a component's settings refer to, and that ZenML does not have.

    `configs` are the settings by the components' types.
    """
    wanted: dict[str, set[str]] = {}
    for config in configs.values():
        for name, key in (found for value in config.values() for found in _REFERENCE.findall(str(value))):
            wanted.setdefault(name, set()).add(key)
    for name, keys in wanted.items():
        there = _secret(name)
        if lacking := sorted(keys - set(there or {})):
            verb = "create" if there is None else "update"
            options = "--private " * (name == _PRIVATE and there is None)
            raise StackError(
                f"ZenML has no secret {name!r} that you may read"
                if there is None
                else f"ZenML's secret {name!r} lacks {', '.join(lacking)}",
                where=", ".join(kind for kind, config in configs.items() if f"{{{{{name}." in str(config)),
                fix=f"zenml secret {verb} {name} {options}--interactive, with the keys {' and '.join(sorted(keys))}",
            )


def check_flavors(flavors: Mapping[str, str | None]) -> None:
    """Raise StackError for a flavor whose packages are not installed; `flavors` are those of components by type."""
    for kind, flavor in flavors.items():
        if flavor == "s3" and importlib.util.find_spec("s3fs") is None:
            raise StackError("the client of S3 is not installed", where=f"{kind}.flavor", fix="make setup-team")


def check_parts(name: str) -> None:
    """Raise StackError unless one can write to the artifact store of a stack, and MLflow's server lets one in."""
    from zenml.client import Client
    from zenml.stack import Stack

    stack = Stack.from_model(Client().get_stack(name, allow_name_prefix_match=False))
    _check_store(stack.artifact_store)
    if stack.experiment_tracker is not None:
        _check_tracker(stack.experiment_tracker.config)


def _check_store(store: Any) -> None:
    """Write a small file into the store, read it, and remove it."""
    place = f"{store.path.rstrip('/')}/rlft-probe-{uuid4()}"
    try:
        with store.open(place, "wb") as file:
            file.write(b"rlft")
        with store.open(place, "rb") as file:
            if file.read() != b"rlft":
                raise OSError(f"{place} does not hold what was written")
        store.remove(place)
    except FileNotFoundError:
        what, fix = f"there is no bucket or folder {store.path}", "make it, or correct artifact_store.config.path"
    except PermissionError as cause:
        what = f"one may not write, read and remove files there: {_line(cause)}"
        fix = "allow it to the key, or put another one into ZenML's secret (zenml secret update s3 --interactive)"
    except Exception as cause:  # whatever a store's library throws
        what, fix = f"the store does not take a file: {_line(cause)}", "see that it answers at artifact_store.config"
    else:
        return
    with suppress(Exception):
        store.cleanup()
    raise StackError(what, where=store.path, fix=f"{fix}, then apply the file again")


def _check_tracker(config: Any) -> None:
    """Ask MLflow's server for its version, as the user whom ZenML's secret names."""
    from mlflow import __version__

    address = str(config.tracking_uri or "")
    if not address.startswith(("http://", "https://")):
        return
    check_tracking_address(address, where="experiment_tracker")
    if config.tracking_password and is_unencrypted(address):
        logger.warning("%s is no https://, so your password at MLflow can be read on its way there", redact(address))
    login = (config.tracking_username, config.tracking_password)
    # A server with accounts tells its version to them alone.
    _check_version("MLflow", f"{address.rstrip('/')}/version", __version__, "experiment_tracker", login)


def _check_version(name: str, address: str, here: str, where: str, login: Any = None) -> None:
    """Raise StackError unless a server answers with a version that goes with that of its client here.

    `login` is (user, password), either of which may be `None`; without it the server asks for none.
    """
    import requests

    try:
        answer = requests.get(address, timeout=_SECONDS, auth=login if login and login[0] else None)
    except requests.exceptions.RequestException as cause:
        said = f"{name}'s server does not answer at {redact(address)}: {type(cause).__name__}"
        raise StackError(said, where=where, fix="start it (docker compose up --wait), or correct its address") from None
    if login is not None and answer.status_code in (401, 403):
        said = f"{name}'s server does not let you in as {login[0] or 'nobody'} with this password"
        fix = f"zenml secret update {name.lower()} --interactive, then apply the file again"
        raise StackError(said, where=where, fix=fix)
    found = re.fullmatch(r'\s*(?:.*"version":\s*")?(\d+\.\d+[\w.]*)\s*(?:".*)?', answer.text, re.DOTALL)
    if not answer.ok or found is None:  # such as the page of a proxy that asks for a login
        said = f"what answers at {redact(address)} is not {name}'s server, or is broken (HTTP {answer.status_code})"
        raise StackError(said, where=where, fix="correct the address, or look at the server's log")
    if found[1].split(".")[:2] != here.split(".")[:2]:
        fix = f"give the server {name} {here} (compose.yaml), or use the rlft that goes with {found[1]}"
        raise StackError(f"{name}'s server is {found[1]}, and here is {here}", where=where, fix=fix)


def _secret(name: str) -> dict[str, str] | None:
    from zenml.client import Client

    try:
        return Client().get_secret_by_name_and_private_status(name).secret_values
    except KeyError:
        return None


def _line(cause: Exception) -> str:
    return " ".join(str(cause.args[0] if cause.args else cause).split())[:200]

"""Whether what a team's stack file names is there: ZenML's server and the login, secrets, the store, MLflow's server.

Each thing that is missing is a StackError with the way out, before anybody waits for a run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from mlops.stacks.stack import check_tracking_address
from rlft.errors import StackError
from rlft.texts.secrets import redact

logger = logging.getLogger(__name__)

_REFERENCE = re.compile(r"\{\{\s*([^.{}]+?)\.([^.{}]+?)\s*\}\}")
_PRIVATE = "mlflow"  # the secret of which everybody has their own, as MLflow then knows who does what


def check_server(address: str) -> None:
    """Raise StackError unless the user's ZenML is logged in to the server at this address, which has our version."""
    from zenml import __version__
    from zenml.client import Client
    from zenml.config.global_config import GlobalConfiguration
    from zenml.exceptions import AuthorizationException

    used, address = GlobalConfiguration().store_configuration.url.rstrip("/"), address.rstrip("/")
    login = f"zenml login {redact(address)}"
    if used != address:
        other = "no server" if used.startswith("sqlite") else redact(used)
        what = f"this stack is one of {redact(address)}, and your ZenML uses {other}"
        raise StackError(what, where="server", fix=login)
    _check_version("ZenML", f"{address}/api/v1/info", __version__, "server")
    try:
        _ = Client().active_user  # asks the server
    except (AuthorizationException, RuntimeError, KeyError) as cause:
        what = f"ZenML's server does not know you: {_line(cause)}"
        raise StackError(what, where="server", fix=f"{login} --refresh") from None


def check_secrets(configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise StackError for a secret that a component's settings refer to, and that ZenML does not have.

    `configs` are the settings by the components' types.
    """
    from zenml.client import Client

    wanted: dict[str, set[str]] = {}
    for name, key in _REFERENCE.findall(str([*configs.values()])):
        wanted.setdefault(name, set()).add(key)
    for name, keys in wanted.items():
        try:
            there = Client().get_secret_by_name_and_private_status(name).secret_values
            verb, lacks = "update", f"ZenML's secret {name!r} lacks {', '.join(sorted(keys - set(there)))}"
        except KeyError:
            there, verb, lacks = {}, "create", f"ZenML has no secret {name!r} that you may read"
        if keys - set(there):
            places = ", ".join(kind for kind, config in configs.items() if f"{{{{{name}." in str(config))
            options = "--private " * (name == _PRIVATE and verb == "create")
            fix = f"zenml secret {verb} {name} {options}--interactive, with the keys {' and '.join(sorted(keys))}"
            raise StackError(lacks, where=places, fix=fix)


def check_parts(name: str) -> None:
    """Raise StackError unless one can write to the artifact store of a stack, and MLflow's server lets one in.

    The packages of its components have to be installed.
    """
    from zenml.client import Client
    from zenml.stack import Stack

    try:
        stack = Stack.from_model(Client().get_stack(name, allow_name_prefix_match=False))
    except ImportError as cause:
        what = f"a client that it needs is not installed: {cause}"
        raise StackError(what, where=name, fix="make setup-team") from None
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
    except Exception as cause:  # whatever a store's library throws
        with suppress(Exception):
            store.cleanup()
        fix = "see that the bucket or folder of artifact_store.config.path is there and answers, and that the key may "
        fix += "write, read and remove files (zenml secret update s3 --interactive), then apply the file again"
        raise StackError(f"the store does not take a file: {_line(cause)}", where=store.path, fix=fix) from cause


def _check_tracker(config: Any) -> None:
    """Ask MLflow's server for its version, as the user whom ZenML's secret names."""
    from mlflow import __version__

    address = str(config.tracking_uri or "")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        return
    check_tracking_address(address, where="experiment_tracker")
    if config.tracking_password and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
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
        answer = requests.get(address, timeout=10, auth=login if login and login[0] else None)
    except requests.exceptions.RequestException as cause:
        said = f"{name}'s server does not answer at {redact(address)}: {type(cause).__name__}"
        fix = "start it (docker compose up --wait), or correct its address"
        raise StackError(said, where=where, fix=fix) from None
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


def _line(cause: Exception) -> str:
    return " ".join(str(cause.args[0] if cause.args else cause).split())[:200]

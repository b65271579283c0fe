"""Who does something to the registry: the user whom MLflow's server knows, else that of the operating system."""

from __future__ import annotations

import logging
import os
import pwd
import socket
from typing import Any

from pydantic import BaseModel, ConfigDict

logger = logging.getLogger(__name__)
_CURRENT = "/api/2.0/mlflow/users/current"  # of MLflow's basic-auth app; a server without it answers 404


class Person(BaseModel):
    """A user's name, and whether MLflow's server has said it of who asked: else it is what the machine says."""

    model_config = ConfigDict(frozen=True)

    name: str
    verified: bool = False

    def __str__(self) -> str:
        return self.name if self.verified else f"{self.name} (unverified)"


def who_am_i(tracking_uri: str) -> Person:
    """Return the user whom the MLflow server at an address takes this process for, by the credentials that it sends.

    Where there is no server, or one that asks nobody who they are, it is the operating system's user at this machine,
    which is not verified. Raises what MLflow raises if a server does not answer.
    """
    if tracking_uri.startswith(("http://", "https://")) and (name := _user_of(tracking_uri)):
        return Person(name=name, verified=True)
    return Person(name=f"{_user_of_machine()}@{socket.gethostname()}")


def _user_of(tracking_uri: str) -> str | None:
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    answer = http_request(get_default_host_creds(tracking_uri), _CURRENT, "GET", raise_on_status=False)
    if answer is None or answer.status_code != 200:
        return None
    try:
        found: Any = answer.json()
    except ValueError:
        return None  # a page of another kind of server
    user = found.get("user") if isinstance(found, dict) else None
    name = user.get("username") if isinstance(user, dict) else None
    return name if isinstance(name, str) and name else None


def _user_of_machine() -> str:
    # Not `getpass.getuser`, which believes what the environment says.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())

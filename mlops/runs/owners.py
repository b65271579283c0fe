"""Whose run it is: what somebody else's would run is asked about before any of it runs (`cli.trust`)."""

from __future__ import annotations

from zenml.client import Client
from zenml.config.global_config import GlobalConfiguration
from zenml.enums import StoreType
from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.home.trusted import is_trusted


def somebody_else(home: Home, run: PipelineRunResponse) -> str | None:
    """Return who has begun an attempt, as a sentence names them; `None` if it is the user, or trusted already.

    A server of ZenML knows who has begun a run. A database alone does not: there only the notes of this account say
    whose settings they are.
    """
    if is_trusted(home, (run.config.parameters or {}).get("config") or {}):
        return None
    if GlobalConfiguration().store_configuration.type != StoreType.REST:
        return "another account, in another home, or by an rlft that did not note whose it is"
    if run.user is not None and run.user.id == Client().active_user.id:
        return None
    return run.user.name if run.user is not None else "a user who was deleted"

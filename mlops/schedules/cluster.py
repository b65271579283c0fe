"""Schedules that a cluster keeps itself: ZenML schedules, on an orchestrator that schedules dynamic pipelines."""

from __future__ import annotations

from typing import Any, NoReturn

from mlops.home.folder import Home
from mlops.schedules.store import Stored
from rlft.errors import RlftError


def keep_in_cluster(home: Home, stored: Stored) -> str:
    """Return the name of the ZenML schedule that is made."""
    return ""


def drop_from_cluster(home: Home, stored: Stored) -> None:
    """Delete the ZenML schedule."""


def refuse_pause(stored: Stored) -> NoReturn:
    """Refuse."""
    raise RlftError("not yet", where=stored.name)


_: Any = None

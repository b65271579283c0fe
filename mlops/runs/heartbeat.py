"""Signs of life of runs on a stack: another home that shares it sees no process, and asks ZenML for the last sign.

ZenML beats for steps in pods alone, and its server refuses a beat for a step that has ended, while the body of a
pipeline may wait ten minutes for a judge between two steps. So the process of a run updates the run itself, and
changes nothing: ZenML then notes the time. It does so every `BEAT_SECONDS`, which never fails the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from mlops.home.folder import Home

logger = logging.getLogger(__name__)
BEAT_SECONDS = 20.0
SILENT_SECONDS = 180.0  # after so long without a sign a run counts as killed: a server may be away for a while
_ANSWER_SECONDS = 10.0


def seen_on_stack(tracking_uri: str, home: Home, run_id: Any) -> AbstractContextManager[None]:
    """Let ZenML note inside that a run goes on if it is on a stack, by its MLflow. One in `home` is seen there."""
    return nullcontext() if tracking_uri == home.tracking_uri else _beating(run_id)


@contextmanager
def _beating(run_id: Any) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                _beat(run_id)
            except Exception as cause:  # whatever a server that is away throws
                logger.debug("no sign of life reached ZenML: %s", cause)

    context = copy_context()  # ZenML keeps what the thread may ask for in context variables
    thread = threading.Thread(target=lambda: context.run(beat), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _beat(run_id: Any) -> None:
    from zenml.client import Client
    from zenml.models import PipelineRunUpdate

    Client().zen_store.update_run(run_id, PipelineRunUpdate())


def silent_seconds(run: Any) -> float:
    """Return how long ago ZenML has last seen a run (its response), by the clock of ZenML's server."""
    from zenml.client import Client

    client = Client()
    seen = client.get_pipeline_run(run.id, hydrate=False)
    # A server tells whole seconds, so that a sign of this second would be of the future.
    return max((_now(client.zen_store) - _aware(seen.updated)).total_seconds(), 0.0)


def _now(store: Any) -> datetime:
    """Return the time by the clock that the signs are noted by: the server's, as this machine's may be minutes off.

    It is this machine's where ZenML has no server, or where something in between leaves the time out of an answer.
    """
    here = datetime.now(UTC)
    if not store.url.startswith(("http://", "https://")):
        return here
    answer = store.session.get(f"{store.url.rstrip('/')}/health", timeout=_ANSWER_SECONDS)
    return _aware(parsedate_to_datetime(answer.headers["Date"])) if "Date" in answer.headers else here


def _aware(when: datetime) -> datetime:
    """ZenML's times are in UTC, some without a zone."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)

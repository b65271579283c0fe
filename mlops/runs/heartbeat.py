"""Signs of life of runs on a stack: another home that shares it sees no process, and asks ZenML for the last sign.

ZenML beats for steps in pods and not for those of its local orchestrator. So the process of a run does it itself, with
ZenML's own call: while a step runs, it is seen every `BEAT_SECONDS`, which never fails the run. Between two steps the
end of the first one counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

from mlops.home.folder import Home

logger = logging.getLogger(__name__)
BEAT_SECONDS = 20.0
SILENT_SECONDS = 180.0  # after so long without a sign a run counts as killed: a server may be away for a while


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
    from zenml.enums import ExecutionStatus

    client = Client()
    for step in client.list_run_steps(pipeline_run_id=run_id, status=ExecutionStatus.RUNNING, size=100):
        client.zen_store.update_step_heartbeat(step.id)


def silent_seconds(run: Any) -> float:
    """Return how long ago ZenML has last seen a run (its response), by this machine's clock."""
    from zenml.client import Client

    steps = Client().list_run_steps(pipeline_run_id=run.id, sort_by="desc:created", size=20, hydrate=True)
    signs = [run.created]
    for step in steps:
        signs += [step.created, step.start_time, step.end_time, step.latest_heartbeat]
    newest = max(_aware(sign) for sign in signs if sign is not None)
    return (datetime.now(UTC) - newest).total_seconds()


def _aware(when: datetime) -> datetime:
    """ZenML's times are in UTC, some without a zone."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)

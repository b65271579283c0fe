"""Conversations as MLflow traces: written beside the answers, by a thread that no request waits for."""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlflow import MlflowClient
from mlflow.entities import Span, TraceInfo, TraceLocation
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient

from mlops.serving.exchange import Exchange
from mlops.serving.traces import traces_of
from mlops.tracking.experiments import active_experiment
from mlops.tracking.reach import REFUSALS, check_reachable
from mlops.tracking.values import reason_of
from rlft.privacy import PERSONAL, Masker, Personal

logger = logging.getLogger(__name__)
_WAITING, _WAITING_BYTES = 1000, 32 << 20  # conversations that wait to be written, at most; later ones are dropped
_ENDS_WITHIN = 2.0  # seconds for what still waits when the server ends
_PAUSE = 30.0  # seconds for which a store that failed is left alone


@dataclass
class Conversations:
    """Writes a `share` of all exchanges, from 0 to 1, into the experiment `NAME-served`.

    Secrets, and personal data of the kinds in `mask`, are hidden before anything leaves this process.
    """

    tracking_uri: str
    name: str
    share: float = 1.0
    mask: Sequence[Personal] = PERSONAL
    written: int = 0
    lost: int = 0
    _queue: queue.Queue[Exchange | None] = field(default_factory=lambda: queue.Queue(_WAITING))
    _held: int = 0  # bytes that wait
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: set[str] = field(default_factory=set)
    _thread: threading.Thread | None = None
    _experiment: str | None = None
    _masker: Masker = field(default_factory=lambda: Masker(()))
    _draw: random.Random = field(default_factory=random.SystemRandom)
    _quiet_until: float = 0.0

    def start(self) -> None:
        """Begin to write what `add` is given. What masks personal data is imported first, which takes seconds."""
        self._masker = Masker(self.mask)
        self._thread = threading.Thread(target=self._run, name="conversations", daemon=True)
        self._thread.start()

    def choose(self) -> bytes | None:
        """Return the key of the trace that the next exchange is to have; `None` if it is not to be logged."""
        return secrets.token_bytes(16) if self._draw.random() < self.share else None

    def add(self, exchange: Exchange) -> None:
        """Let an exchange be written soon; never waits, and drops it if too many wait already."""
        with self._lock:
            if self._queue.full() or self._held + exchange.size > _WAITING_BYTES:
                self._lose("conversations are dropped, and answers go on", "too many wait to be written")
            else:
                self._held += exchange.size
                self._queue.put_nowait(exchange)

    def close(self) -> None:
        """Write what waits, for two seconds at most, and say how many were lost."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(None)
            self._thread.join(_ENDS_WITHIN)
        if self.lost or self._queue.qsize() > 0:
            logger.warning("%d conversations were not written into MLflow", self.lost + self._queue.qsize())

    def _run(self) -> None:
        while (exchange := self._queue.get()) is not None:
            with self._lock:
                self._held -= exchange.size
            if time.monotonic() < self._quiet_until:
                self.lost += 1
                continue
            try:
                made = traces_of(exchange, self._masker, self.tracking_uri)
            except Exception as cause:  # whatever a client can send: it must cost nobody else's conversation
                self._lose("a conversation is not logged, and others are", reason_of(cause, self.tracking_uri))
                continue
            try:
                self._write(made)
                self.written += 1
            except Exception as cause:  # whatever a store throws: an answer must not depend on it
                if getattr(cause, "error_code", None) not in REFUSALS:
                    self._quiet_until = time.monotonic() + _PAUSE
                self._experiment = None  # it may be deleted, and another one of its name made
                reason = reason_of(cause, self.tracking_uri)
                self._lose("conversations are not logged, and answers go on", f"MLflow does not take them: {reason}")

    def _lose(self, what: str, why: str) -> None:
        """Count a conversation that is not written, and tell of the first that is lost in this way."""
        self.lost += 1
        if what not in self._told:
            self._told.add(what)
            logger.warning("%s: %s", what, why)

    def _write(self, made: Sequence[tuple[Span, TraceInfo]]) -> None:
        check_reachable(self.tracking_uri)
        if self._experiment is None:
            self._experiment = experiment_id(self.tracking_uri, f"{self.name}-served")
        client = TracingClient(self.tracking_uri)
        for span, info in made:
            info.trace_location = TraceLocation.from_experiment_id(self._experiment)
            client.start_trace(info)  # first, as it alone is refused where the experiment is deleted
            client.log_spans(self._experiment, [span])


def experiment_id(tracking_uri: str, name: str) -> str:
    """Return the id of an experiment, which is made if it is not there.

    Raises TrackerError for one that is deleted, and what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    try:
        return client.create_experiment(name)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    found = active_experiment(client, name)
    assert found is not None
    return found.experiment_id

"""Conversations as MLflow traces: written beside the answers, by a thread that no request waits for."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import random
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import TraceInfo, TraceLocation, TraceState
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient

from mlops.serving.exchange import Exchange, conversations_of
from mlops.tracking.reach import check_reachable
from mlops.tracking.spans import chat_span, trace_id
from mlops.tracking.traces import PREVIEW
from mlops.tracking.values import reason_of, redact
from rlft.privacy import PERSONAL, Masker, Personal
from rlft.visible import visible

logger = logging.getLogger(__name__)
_WAITING = 1000  # conversations that wait to be written; later ones are dropped
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
        try:
            self._queue.put_nowait(exchange)
        except queue.Full:
            self._lose("too many conversations wait to be written")

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
            if time.monotonic() < self._quiet_until:
                self.lost += 1
                continue
            try:
                self._write(exchange)
                self.written += 1
            except Exception as cause:  # whatever a store throws: an answer must not depend on it
                self._quiet_until = time.monotonic() + _PAUSE
                reason = reason_of(cause, self.tracking_uri)
                self._lose(f"MLflow does not take them: {reason}")

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost == 1:
            logger.warning("conversations are not logged, and answers go on: %s", why)

    def _write(self, exchange: Exchange) -> None:
        check_reachable(self.tracking_uri)
        if self._experiment is None:
            self._experiment = experiment_id(self.tracking_uri, f"{self.name}-served")
        client = TracingClient(self.tracking_uri)
        tags = self._hidden(dict(exchange.tags))
        for key, *said in conversations_of(exchange):
            asked, answered = map(self._hidden, said)
            error = answered[0]["content"][:PREVIEW] if exchange.failed and answered else None
            shown = [] if exchange.failed else answered
            span = chat_span(key, "answer", (exchange.start, exchange.end), asked, shown, error)
            client.log_spans(self._experiment, [span])
            client.start_trace(_info(key, self._experiment, exchange, asked, answered, tags))

    def _hidden(self, content: Any) -> Any:
        """Return JSON values without secrets and personal data."""
        return self._masker.value(json.loads(redact(json.dumps(content, ensure_ascii=False), self.tracking_uri)))


def experiment_id(tracking_uri: str, name: str) -> str:
    """Return the id of an experiment, which is made if it is not there. Raises what MLflow raises."""
    client = MlflowClient(tracking_uri=tracking_uri)
    try:
        return client.create_experiment(name)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    found = client.get_experiment_by_name(name)
    assert found is not None
    return found.experiment_id


def _info(
    key: bytes,
    experiment: str,
    exchange: Exchange,
    asked: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
    given: Mapping[str, str],
) -> TraceInfo:
    version = exchange.version
    tags = {"rlft.model": version.name, "rlft.version": version.number, "rlft.weights_hash": version.weights_hash}
    return TraceInfo(
        trace_id=trace_id(key),
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=exchange.start // 1_000_000,
        execution_duration=(exchange.end - exchange.start) // 1_000_000,
        state=TraceState.ERROR if exchange.failed else TraceState.OK,
        request_preview=_preview(asked),
        response_preview=_preview(answered),
        trace_metadata={"mlflow.trace_schema.version": "3"}
        | ({"mlflow.modelId": version.model_id} if version.model_id else {}),
        tags={
            **given,
            "mlflow.traceName": exchange.path,
            "mlflow.trace.spansLocation": "TRACKING_STORE",  # as in `mlops.tracking.traces`
            **tags,
            **({"rlft.alias": version.alias} if version.alias else {}),
        },
    )


def _preview(messages: Sequence[Mapping[str, Any]]) -> str:
    content = messages[-1].get("content") if messages else ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return visible(text[:PREVIEW])[:PREVIEW]

"""Conversations as MLflow traces, without secrets and personal data: written beside the answers, by a thread that no
request waits for."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Span, SpanType, TraceInfo, TraceLocation, TraceState
from mlflow.tracing.client import TracingClient

from mlops.registry.engines import ServedVersion
from mlops.tracking.address import check_reachable
from mlops.tracking.run import active_experiment
from mlops.tracking.traces import MOST_TOGETHER, PREVIEW, span_of, store_traces, trace_id
from mlops.tracking.values import reason_of, redact
from rlft.texts.characters import visible
from rlft.texts.privacy import LONGEST, PERSONAL, Masker
from rlft.texts.secrets import hide_secrets

logger = logging.getLogger(__name__)
_WAITING = 1000  # conversations that wait to be written, at most; later ones are dropped
_ENDS_WITHIN = 2.0  # seconds for what still waits when the server ends
INVOCATIONS = "/invocations"
LONGEST_REQUEST, LONGEST_ANSWER = 1 << 18, 1 << 20  # bytes: a longer request is not logged, an answer is cut
TAG_HEADER = "rlft-tag"
_MOST_TAGS = 10
_TAG = re.compile(r"([A-Za-z][\w.-]{0,49})=([^,\x00-\x1f]{1,250})", re.ASCII)
_RESERVED = ("rlft.", "mlflow.")
Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer.

    `asked` is the body that the engine got, and `answer` what it sent, up to `LONGEST_ANSWER`. Times are nanoseconds
    since the epoch. `key` is the 16 bytes of the trace's id, `tags` are those that the client gave.
    """

    version: ServedVersion
    path: str
    asked: bytes
    status: int
    content_type: str
    answer: bytes
    start: int
    end: int
    key: bytes
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the answer is an error."""
        return self.status >= 400


def read_tags(headers: Iterable[str]) -> dict[str, str]:
    """Return the tags of a request by its headers `rlft-tag: NAME=VALUE`, which may hold several with commas between.

    Raises ValueError, a sentence, for one that is no tag, or that rlft or MLflow sets itself.
    """
    tags = dict[str, str]()
    for each in (part.strip() for header in headers for part in header.split(",")):
        found = _TAG.fullmatch(each)
        if found is None or each.lower().startswith(_RESERVED):
            raise ValueError(
                f"the header {TAG_HEADER} holds {each!r:.80}, which is no tag; write NAME=VALUE, with a name of "
                f"letters, digits, _, . and - that does not begin with {' or '.join(_RESERVED)}"
            )
        tags[found[1]] = found[2].strip()
    if len(tags) > _MOST_TAGS:
        raise ValueError(f"the header {TAG_HEADER} holds {len(tags)} tags; at most {_MOST_TAGS} are taken")
    return tags


@dataclass
class Conversations:
    """Writes exchanges into the experiment `NAME-served`.

    Secrets, and personal data unless `mask` is false, are hidden before anything leaves this process.
    """

    tracking_uri: str
    name: str
    mask: bool = True
    written: int = 0
    lost: int = 0
    _queue: queue.Queue[Exchange | None] = field(default_factory=lambda: queue.Queue(_WAITING))
    _told: set[str] = field(default_factory=set)
    _thread: threading.Thread | None = None
    _masker: Masker = field(default_factory=lambda: Masker(()))

    def start(self) -> None:
        """Begin to write what `add` is given. What masks personal data is imported first, which takes seconds."""
        self._masker = Masker(PERSONAL if self.mask else ())
        self._thread = threading.Thread(target=self._run, name="conversations", daemon=True)
        self._thread.start()

    def add(self, exchange: Exchange) -> None:
        """Let an exchange be written soon; never waits, and drops it if too many wait already."""
        try:
            self._queue.put_nowait(exchange)
        except queue.Full:
            self._lose("conversations are dropped, and answers go on", "too many wait to be written")

    def close(self) -> None:
        """Write what waits, for two seconds at most, and say how many were lost."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(None)
            self._thread.join(_ENDS_WITHIN)
        if self.lost or self._queue.qsize() > 0:
            logger.warning("%d conversations were not written into MLflow", self.lost + self._queue.qsize())

    def _run(self) -> None:
        going = True
        while going:
            together = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(together) < MOST_TOGETHER:
                    together.append(self._queue.get_nowait())
            going = None not in together
            if traces := [made for each in together if each is not None and (made := self._trace_of(each))]:
                self._write(traces)

    def _trace_of(self, exchange: Exchange) -> tuple[TraceInfo, list[Span]] | None:
        try:
            return trace_of(exchange, self._masker, self.tracking_uri)
        except Exception as cause:  # whatever a client can send: it must cost nobody else's conversation
            self._lose("a conversation is not logged, and others are", reason_of(cause, self.tracking_uri))
            return None

    def _write(self, traces: Sequence[tuple[TraceInfo, list[Span]]]) -> None:
        before = self.written
        try:
            check_reachable(self.tracking_uri)
            experiment = experiment_id(self.tracking_uri, f"{self.name}-served")
            for info, _ in traces:
                info.trace_location = TraceLocation.from_experiment_id(experiment)
            for _ in store_traces(TracingClient(self.tracking_uri), experiment, traces):
                self.written += 1
        except Exception as cause:  # whatever a store throws: an answer must not depend on it
            reason = f"MLflow does not take them: {reason_of(cause, self.tracking_uri)}"
            missing = len(traces) - (self.written - before)
            self._lose("conversations are not logged, and answers go on", reason, missing)

    def _lose(self, what: str, why: str, count: int = 1) -> None:
        """Count conversations that are not written, and tell of the first that are lost in this way."""
        self.lost += count
        if what not in self._told:
            self._told.add(what)
            logger.warning("%s: %s", what, why)


def experiment_id(tracking_uri: str, name: str) -> str:
    """Return the id of an experiment, which is made if it is not there.

    Raises TrackerError for one that is deleted, and what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    found = active_experiment(client, name)
    return found.experiment_id if found else client.create_experiment(name)


def trace_of(exchange: Exchange, masker: Masker, tracking_uri: str) -> tuple[TraceInfo, list[Span]]:
    """Return a conversation as a trace, and its span; the experiment is for who writes them to name.

    Raises ValueError for a conversation of more than `LONGEST` characters. What a client has sent may raise anything
    else, too.
    """

    def hidden(content: Any) -> Any:
        # Text by text: signs of JSON beside a secret would hide it, and a secret taken out of JSON may spoil it.
        text = json.dumps(content, ensure_ascii=False)
        if len(text) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST:,} characters")
        plain = json.loads(text.encode(errors="replace"))  # half of a surrogate pair, which no store takes, becomes ?
        return _each_text(hide_secrets(plain), lambda own: masker.text(redact(own, tracking_uri)))

    tags, (asked, answered) = hidden(dict(exchange.tags)), hidden(conversation_of(exchange))
    error = (_preview(answered) or "it failed") if exchange.failed else None
    shown = [] if exchange.failed else answered
    times = (exchange.start, exchange.end)
    span = span_of(exchange.key, 0, "answer", SpanType.CHAT_MODEL, times, asked, shown, error)
    return _info(exchange, asked, answered, tags), [span]


def _each_text(content: Any, change: Callable[[str], str]) -> Any:
    match content:
        case str():
            return change(content)
        case dict():
            return {change(key): _each_text(value, change) for key, value in content.items()}
        case list():
            return [_each_text(value, change) for value in content]
        case _:
            return content


def _info(
    exchange: Exchange,
    asked: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
    given: Mapping[str, str],
) -> TraceInfo:
    version = exchange.version
    tags = {"rlft.model": version.name, "rlft.version": version.number, "rlft.weights_hash": version.weights_hash}
    return TraceInfo(
        trace_id=trace_id(exchange.key),
        trace_location=TraceLocation.from_experiment_id("0"),
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


def conversation_of(exchange: Exchange) -> tuple[Messages, Messages]:
    """Return what was asked and what was answered.

    A request to `/invocations` may hold several conversations, which are one message then, as it was sent, as what
    cannot be read is.
    """
    body = _read(exchange.asked)
    if exchange.path == INVOCATIONS and isinstance(body, dict):
        rows = next((body[name] for name in ("inputs", "instances", "dataframe_records") if name in body), body)
        row, said = _only(rows), _read(exchange.answer)
        text = _only(said.get("predictions") if isinstance(said, dict) else said)
        if isinstance(row, dict) and isinstance(text, str):
            return _asked(row), [{"role": "assistant", "content": text}]
    return _asked(body), answered_messages(exchange.content_type, exchange.answer)


def _only(rows: Any) -> Any:
    """Return the one entry of a list, and what else there is as it is."""
    return rows[0] if isinstance(rows, list) and len(rows) == 1 else rows


def _read(body: bytes) -> Any:
    """Return a body of JSON; as text if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", errors="replace")


def _asked(body: Any) -> Messages:
    """Return the messages of a request, or its prompt as one; what has neither is one message, as it was sent."""
    given = body if isinstance(body, dict) else {}
    messages, prompt = given.get("messages"), given.get("prompt")
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        return messages
    text = next((each for each in (prompt, body) if isinstance(each, str)), None)
    return [{"role": "user", "content": json.dumps(body, ensure_ascii=False) if text is None else text}]


def answered_messages(content_type: str, body: bytes) -> list[dict[str, Any]]:
    """Return the messages of an answer of the chat or completions route; the choices one after another.

    Never raises: of what cannot be read the text is returned as it is.
    """
    text = body.decode("utf-8", errors="replace")
    try:
        if "event-stream" in content_type:
            return _joined(text)
        choices = json.loads(text)["choices"]
        return [choice.get("message") or {"role": "assistant", "content": choice["text"]} for choice in choices]
    except (ValueError, KeyError, TypeError, AttributeError):
        return [{"role": "assistant", "content": text}]


def _joined(stream: str) -> list[dict[str, Any]]:
    """Join the deltas of a stream of server-sent events, by choice; calls of tools are joined by their index."""
    found: dict[int, dict[str, Any]] = {}
    for line in stream.splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        for choice in json.loads(data).get("choices") or []:
            message = found.setdefault(choice.get("index") or 0, {"role": "assistant", "content": ""})
            delta = choice.get("delta") or {"content": choice.get("text")}
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                _add_call(message, call)
    return [_finished(message) for _, message in sorted(found.items())]


def _add_call(message: dict[str, Any], delta: dict[str, Any]) -> None:
    calls = message.setdefault("tool_calls", {})
    call = calls.setdefault(delta.get("index") or 0, {"type": "function", "function": {"name": "", "arguments": ""}})
    if delta.get("id"):
        call["id"] = delta["id"]
    for part in ("name", "arguments"):
        call["function"][part] += (delta.get("function") or {}).get(part) or ""


def _finished(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.pop("tool_calls", None)
    return message if calls is None else {**message, "tool_calls": [call for _, call in sorted(calls.items())]}

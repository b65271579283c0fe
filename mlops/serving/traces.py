"""What MLflow gets of an exchange: a span and a description of each conversation, without secrets and personal data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState

from mlops.serving.exchange import Exchange, conversations_of
from mlops.tracking.spans import chat_span, trace_id
from mlops.tracking.traces import PREVIEW
from mlops.tracking.values import redact
from rlft.privacy import LONGEST, Masker
from rlft.secrets import hide_secrets
from rlft.visible import visible

_NOWHERE = TraceLocation.from_experiment_id("0")


def traces_of(exchange: Exchange, masker: Masker, tracking_uri: str) -> list[tuple[Span, TraceInfo]]:
    """Return the span and the description of each conversation; the experiment is for who writes them to name.

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

    tags = hidden(dict(exchange.tags))
    made = list[tuple[Span, TraceInfo]]()
    for key, *said in conversations_of(exchange):
        asked, answered = hidden(said)
        error = (_preview(answered) or "it failed") if exchange.failed else None
        shown = [] if exchange.failed else answered
        span = chat_span(key, "answer", (exchange.start, exchange.end), asked, shown, error)
        made.append((span, _info(key, exchange, asked, answered, tags)))
    return made


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
    key: bytes,
    exchange: Exchange,
    asked: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
    given: Mapping[str, str],
) -> TraceInfo:
    version = exchange.version
    tags = {"rlft.model": version.name, "rlft.version": version.number, "rlft.weights_hash": version.weights_hash}
    return TraceInfo(
        trace_id=trace_id(key),
        trace_location=_NOWHERE,
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

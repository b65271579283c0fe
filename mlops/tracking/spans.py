"""Turns a rollout into the spans of a trace: who said what, in the form that MLflow shows as a conversation."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from mlflow.entities import Span, SpanType

from rlft.calls import marked
from rlft.messages import as_openai, written
from rlft.outcome import as_text
from rlft.types import Message, Rollout
from rlft.visible import visible

_LONGEST_NAME = 100


def rollout_spans(rollout: Rollout, prompt: int, trace_key: bytes, start: int, end: int) -> list[Span]:
    """Return an AGENT span over the whole, a CHAT_MODEL child for each answer, a TOOL child for each tool result.

    The first `prompt` messages are the prompt; `trace_key` is the trace's id as 16 bytes; `start` and `end` are
    nanoseconds since the epoch. Only the time of the whole is recorded in a rollout: the children get equal shares of
    it, so that they stand in order.

    A CHAT_MODEL child has read all messages before its own: those of users and tools in later turns too. The result of
    a call that failed is shown as an error. A call that could not be read stands in the content of its message as the
    model wrote it, and in the input of its TOOL child with the place marked.
    """
    messages = [_shown(message) for message in rollout.messages]
    children = [i for i in range(prompt, len(messages)) if messages[i]["role"] in ("assistant", "tool")]
    whole = (start, end)
    spans = [
        _span(
            trace_key, 0, "rollout", SpanType.AGENT, whole, messages[:prompt], messages[prompt:], as_text(rollout.error)
        )
    ]
    share = (end - start) // max(1, len(children))
    turn = 0
    for place, index in enumerate(children):
        times = (start + place * share, start + (place + 1) * share)
        message = rollout.messages[index]
        if message["role"] == "assistant":
            turn += 1
            shown = (messages[:index], [messages[index]])
            span = _span(trace_key, index + 1, f"turn {turn}", SpanType.CHAT_MODEL, times, *shown)
        else:
            name, arguments = called(rollout.messages[:index], message)
            failed = message["content"] if message.get("failed") else None
            # A model may call anything a tool, be it ever so long; the call itself stands whole in the turn before.
            name = visible(name)[:_LONGEST_NAME]
            span = _span(trace_key, index + 1, name, SpanType.TOOL, times, arguments, message["content"], failed)
        spans.append(span)
    return spans


def chat_span(
    trace_key: bytes,
    name: str,
    times: tuple[int, int],
    asked: Sequence[dict[str, Any]],
    answered: Sequence[dict[str, Any]],
    error: str | None = None,
) -> Span:
    """Return the one CHAT_MODEL span of a trace of one answer; messages in OpenAI's form, times in nanoseconds."""
    return _span(trace_key, 0, name, SpanType.CHAT_MODEL, times, asked, answered, error)


def called(before: Sequence[Message], result: Message) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of the call that a tool message answers; what was `written` if it could not be read.

    The call is found by its place, as results stand in the order of their calls: ids come from models, which may give
    two calls the same one.
    """
    results = 0
    for message in reversed(before):
        if message["role"] == "tool":
            results += 1
            continue
        calls = message.get("tool_calls", [])
        if results < len(calls):
            function = calls[results]["function"]
            return function["name"], function["arguments"]
        invalid = message.get("invalid_tool_calls", [])
        if 0 <= results - len(calls) < len(invalid) and (text := invalid[results - len(calls)]["text"]):
            return "tool", {"written": marked(text, invalid[results - len(calls)]["position"])}
        break
    return result.get("name") or "tool", {}


def _shown(message: Message) -> dict[str, Any]:
    """Return the message in OpenAI's form. It has no calls that could not be read, so their text joins the content."""
    shown = as_openai(message) | {"content": written(message)}
    shown.pop("invalid_tool_calls", None)
    return shown


def _span(
    trace_key: bytes,
    place: int,
    name: str,
    kind: str,
    times: tuple[int, int],
    inputs: Any,
    outputs: Any,
    error: str | None = None,
) -> Span:
    """Return one span, made from MLflow's stored form. Place 0 is the root, all others are its children."""
    is_tool = kind == SpanType.TOOL
    attributes = {
        "mlflow.traceRequestId": trace_id(trace_key),
        "mlflow.spanType": kind,
        "mlflow.spanInputs": inputs if is_tool else {"messages": inputs},
        "mlflow.spanOutputs": outputs if is_tool else {"messages": outputs},
    }
    return Span.from_dict(
        {
            "trace_id": b64encode(trace_key).decode(),
            "span_id": _span_id(trace_key, place),
            "parent_span_id": _span_id(trace_key, 0) if place else None,
            "name": name,
            "start_time_unix_nano": times[0],
            "end_time_unix_nano": times[1],
            "events": [],
            "status": {"code": "STATUS_CODE_ERROR" if error else "STATUS_CODE_OK", "message": error or ""},
            "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in attributes.items()},
            "links": [],
        }
    )


def token_usage(rollout: Rollout) -> dict[str, int]:
    """Return counts of tokens for MLflow: `output` is what the model sampled, `input` all else, each token once."""
    sampled = int(rollout.loss_mask.sum())
    total = len(rollout.token_ids)
    return {"input_tokens": total - sampled, "output_tokens": sampled, "total_tokens": total}


def trace_id(trace_key: bytes) -> str:
    """Return a trace's id as MLflow writes it."""
    return f"tr-{trace_key.hex()}"


def span_key(trace_key: bytes, place: int) -> bytes:
    """Return the 8 bytes of a span's id; place 0 is the root."""
    return hashlib.sha256(trace_key + place.to_bytes(4, "big")).digest()[:8]


def _span_id(trace_key: bytes, place: int) -> str:
    return b64encode(span_key(trace_key, place)).decode()

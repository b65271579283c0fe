"""Stores chosen rollouts as MLflow traces: conversations that a person can read, with their scores beside them.

Traces are written straight to the store of the given address, one batch after the other: no tracer, no queue that drops
under load, no global state. Their ids come from the run and the rollout, so writing one again changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import (
    Assessment,
    AssessmentError,
    AssessmentSource,
    Feedback,
    Span,
    SpanType,
    TraceInfo,
    TraceLocation,
    TraceState,
)

# The one module here that MLflow does not document: its public calls take the address from global state.
from mlflow.tracing.client import TracingClient

from mlops.tracking.address import check_reachable, quick_http
from mlops.tracking.values import reason_of
from rlft.calls import marked
from rlft.characters import visible
from rlft.messages import as_openai, written
from rlft.outcome import as_text
from rlft.types import Message, Reward, Rewards, Rollout, Rollouts, Task, TaskSet

logger = logging.getLogger(__name__)

ROLLOUT_TAG, ROUND_TAG, POLICY_TAG = "rlft.rollout_id", "rlft.round", "rlft.policy"
TASK_TAG = "rlft.task_id"
TURNS_TAG, CALLS_TAG, FAILED_TAG = "rlft.turns", "rlft.tool_calls", "rlft.tool_errors"
STOP_TAG = "rlft.stop_reason"
PREVIEW = 1000  # characters of a request or response in MLflow's list of traces
SOURCE = AssessmentSource(source_type="CODE", source_id="rlft")
MOST_TOGETHER = 50  # traces whose spans go in one request
_LARGEST = 1_000_000  # characters of their spans; one trace may have more


def choose_rollouts(rollouts: Rollouts, rewards: Rewards, count: int) -> tuple[Rollout, ...]:
    """Return at most `count` rollouts, evenly spread from the worst reward to the best, both ends included.

    Those without a score rank below the worst: they are what a person wants to see first. The choice depends on
    rewards and rollout ids alone.
    """
    totals = {reward.rollout_id: reward.total for reward in rewards}
    ranked = sorted(rollouts, key=lambda r: (*_rank(totals.get(r.rollout_id)), r.rollout_id))
    if count >= len(ranked):
        return tuple(ranked)
    if count <= 1:
        return tuple(ranked[-1:] if count == 1 else ())
    return tuple(ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count))


def _rank(total: float | None) -> tuple[bool, float]:
    return (total is not None, total or 0.0)


def log_rollout_traces(
    tracking_uri: str,
    experiment_id: str,
    run_id: str,
    rollouts: Sequence[Rollout] | Rollouts,
    rewards: Rewards,
    tasks: TaskSet | Mapping[str, Task],
    round: int,
) -> int:
    """Store the rollouts of a round as traces of an MLflow run, as `store_rollouts` does, with the rewards' parts."""
    by_id = tasks.by_id() if isinstance(tasks, TaskSet) else tasks
    scores = {reward.rollout_id: reward for reward in rewards}

    def made(rollout: Rollout) -> MadeTrace:
        trace = trace_id(trace_key(run_id, rollout))
        feedback = reward_feedback(scores.get(rollout.rollout_id), rewards.weights, trace)
        prompt = prompt_count(rollout, by_id.get(rollout.task_id))
        return trace_of(experiment_id, run_id, rollout, feedback, prompt, {ROUND_TAG: str(round)}, {})

    return store_rollouts(tracking_uri, experiment_id, run_id, list(rollouts), made, round)


def store_rollouts(
    tracking_uri: str,
    experiment_id: str,
    run_id: str,
    rollouts: Sequence[Rollout],
    made: Callable[[Rollout], MadeTrace],
    round: int | None = None,
) -> int:
    """Store those rollouts, of one round or of all, that the run has no traces of; returns how many it then has.

    A store that fails is warned of once and never raises.
    """
    there = set[str]()
    try:
        with quick_http():
            check_reachable(tracking_uri)
            there = stored_rollouts(tracking_uri, experiment_id, run_id, round)
            traces = (made(rollout) for rollout in rollouts if rollout.rollout_id not in there)
            for each in store_traces(TracingClient(tracking_uri), experiment_id, traces):
                there.add(each.info.tags[ROLLOUT_TAG])
    except Exception as cause:  # a trace is a convenience: whatever the store throws must not stop training
        missing, reason = sum(each.rollout_id not in there for each in rollouts), reason_of(cause, tracking_uri)
        logger.warning("%d of %d conversations were not stored as traces. %s", missing, len(rollouts), reason)
    return sum(each.rollout_id in there for each in rollouts)


def stored_rollouts(tracking_uri: str, experiment_id: str, run_id: str, round: int | None = None) -> set[str]:
    """Return the ids of the rollouts, of one round or of all, that the run has traces of."""
    client, found, token = MlflowClient(tracking_uri=tracking_uri), set[str](), None
    query = f"metadata.`mlflow.sourceRun` = '{run_id}'" + (
        "" if round is None else f" AND tags.`{ROUND_TAG}` = '{round}'"
    )
    while True:
        page = client.search_traces(
            locations=[experiment_id], filter_string=query, include_spans=False, max_results=500, page_token=token
        )
        found |= {trace.info.tags.get(ROLLOUT_TAG, "") for trace in page}
        token = page.token
        if not token:
            return found


def prompt_count(rollout: Rollout, task: Task | None) -> int:
    """Return how many of the rollout's first messages are its prompt: the task's, and what the context put before them.

    Without the task they are those before the first answer of the model.
    """
    if task is not None:
        size = len(task.prompt)
        for start in range(len(rollout.messages) - size + 1):
            if rollout.messages[start : start + size] == task.prompt:
                return start + size
    roles = [message["role"] for message in rollout.messages]
    return roles.index("assistant") if "assistant" in roles else len(roles)


@dataclass(frozen=True, slots=True)
class MadeTrace:
    """A trace that is yet to be stored; `size` is about how many characters its spans have."""

    info: TraceInfo
    spans: list[Span]
    size: int


def trace_of(
    experiment_id: str,
    run_id: str,
    rollout: Rollout,
    assessments: Sequence[Assessment],
    prompt: int,
    tags: Mapping[str, str],
    metadata: Mapping[str, str],
) -> MadeTrace:
    """Return a rollout as a trace of a run, with further `tags` and `metadata`.

    The first `prompt` messages are the prompt.
    """
    key = trace_key(run_id, rollout)
    end = time.time_ns()
    start = end - max(1_000_000, int(rollout.seconds * 1e9))  # nanoseconds, at least a millisecond
    info = TraceInfo(
        trace_id=trace_id(key),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start // 1_000_000,
        execution_duration=(end - start) // 1_000_000,
        state=TraceState.ERROR if rollout.error else TraceState.OK,
        request_preview=_last_text(rollout.messages[:prompt]),
        response_preview=as_text(rollout.error) or _last_text(rollout.messages[prompt:]),
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace_schema.version": "3",
            "mlflow.trace.tokenUsage": json.dumps(token_usage(rollout)),
            **metadata,
        },
        tags={
            "mlflow.traceName": "rollout",
            # Set by MLflow when spans arrive first; a start_trace without it would point to a file.
            "mlflow.trace.spansLocation": "TRACKING_STORE",
            ROLLOUT_TAG: rollout.rollout_id,
            # No session of MLflow's: it would show attempts at one task, which are apart, as turns of one talk.
            TASK_TAG: rollout.task_id,
            **tags,
            POLICY_TAG: rollout.policy,
            TURNS_TAG: str(rollout.turns),
            CALLS_TAG: str(rollout.tool_calls),
            FAILED_TAG: str(rollout.tool_errors),
            STOP_TAG: rollout.stop_reason,
        },
        assessments=list(assessments),
    )
    characters = sum(len(message["content"]) for message in rollout.messages)
    return MadeTrace(info, rollout_spans(rollout, prompt, key, start, end), characters * max(rollout.turns, 1))


def store_traces(client: TracingClient, experiment_id: str, traces: Iterable[MadeTrace]) -> Iterator[MadeTrace]:
    """Store traces, and yield each when it is. Raises what the store raises.

    The spans of many go in one request, and before the traces themselves, so that a trace which a search by the run
    finds is complete.
    """
    for together in _batches(traces):
        client.log_spans(experiment_id, [span for each in together for span in each.spans])
        for each in together:
            client.start_trace(each.info)
            yield each


def _batches(traces: Iterable[MadeTrace]) -> Iterator[list[MadeTrace]]:
    batch, size = list[MadeTrace](), 0
    for each in traces:
        if batch and (len(batch) == MOST_TOGETHER or size + each.size > _LARGEST):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.size
    if batch:
        yield batch


def reward_feedback(reward: Reward | None, weights: Mapping[str, float], trace_id: str) -> list[Assessment]:
    """Return `reward`, `solved`, and each part that applies as `rewards/<part>` with its weight in the metadata.

    A failed score is an error, not a 0. Without a reward the list is empty.
    """
    if reward is None:
        return []
    if reward.total is None:
        error = AssessmentError(error_code="SCORING_FAILED", error_message=(as_text(reward.error) or "no score")[:1000])
        return [Feedback(name="reward", error=error, source=SOURCE, trace_id=trace_id)]
    found = [
        Feedback(name=name, value=value, source=SOURCE, trace_id=trace_id)
        for name, value in (("reward", reward.total), ("solved", reward.solved))
    ]
    for part, score in reward.parts.items():
        if score is not None:
            weight = {"weight": f"{weights.get(part, 1.0):g}"}
            found.append(
                Feedback(name=f"rewards/{part}", value=score, source=SOURCE, trace_id=trace_id, metadata=weight)
            )
    return [*found]


def root_span_id(key: bytes) -> str:
    """Return the id of a trace's root span, as MLflow writes it."""
    return span_key(key, 0).hex()


def trace_key(run_id: str, rollout: Rollout) -> bytes:
    """Return the 16 bytes of a trace's id, made from run and rollout: storing a rollout again makes no other trace."""
    return hashlib.sha256(f"{run_id}/{rollout.rollout_id}".encode()).digest()[:16]


def _last_text(messages: Sequence[Message]) -> str:
    """Return the beginning of the last message, without characters that a database refuses or that steer a terminal."""
    # Cut twice: what is made visible is longer. The messages themselves are stored whole, as JSON.
    return visible(messages[-1]["content"][:PREVIEW])[:PREVIEW] if messages else ""


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

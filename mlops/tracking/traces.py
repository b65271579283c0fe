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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import (
    Assessment,
    AssessmentError,
    AssessmentSource,
    Expectation,
    Feedback,
    Span,
    SpanType,
    TraceInfo,
    TraceLocation,
    TraceState,
)

# The one module here that MLflow does not document: its public calls take the address from global state.
from mlflow.tracing.client import TracingClient

from mlops.tracking.address import check_reachable, pages, quick_http
from mlops.tracking.values import reason_of
from rlft.messages import as_openai, marked, written
from rlft.outcome import as_text
from rlft.texts.characters import visible
from rlft.types import Message, Reward, Rewards, Rollout, Rollouts, Task

logger = logging.getLogger(__name__)

ROLLOUT_TAG, ROUND_TAG, POLICY_TAG = "rlft.rollout_id", "rlft.round", "rlft.policy"
TASK_TAG = "rlft.task_id"
TURNS_TAG, CALLS_TAG, FAILED_TAG = "rlft.turns", "rlft.tool_calls", "rlft.tool_errors"
STOP_TAG = "rlft.stop_reason"
EXPECTED = "expected_response"  # the name that MLflow's own scorers read
SOURCE_RUN, MODEL_ID = "mlflow.assessment.sourceRunId", "mlflow.modelId"
PREVIEW = 1000  # characters of a request or response in MLflow's list of traces
SOURCE = AssessmentSource(source_type="CODE", source_id="rlft")
MOST_TOGETHER = 10  # traces whose spans go in one request


def choose_rollouts(rollouts: Rollouts, rewards: Rewards, count: int) -> tuple[Rollout, ...]:
    """Return at most `count` rollouts, evenly spread from the worst reward to the best, both ends included.

    Those without a score rank below the worst: they are what a person wants to see first. The choice depends on
    rewards and rollout ids alone.
    """
    totals = {reward.rollout_id: reward.total for reward in rewards}

    def rank(rollout: Rollout) -> tuple[bool, float, str]:
        total = totals.get(rollout.rollout_id)
        return (total is not None, total or 0.0, rollout.rollout_id)

    ranked = sorted(rollouts, key=rank)
    if count >= len(ranked):
        return tuple(ranked)
    if count <= 1:
        return tuple(ranked[-1:] if count == 1 else ())
    return tuple(ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count))


def log_rollouts(
    tracking_uri: str,
    experiment_id: str,
    run_id: str,
    rollouts: Iterable[Rollout],
    rewards: Rewards,
    tasks: Mapping[str, Task],
    tags: Mapping[str, str],
    *,
    model_id: str | None = None,
    with_answers: bool = False,
) -> int:
    """Store rollouts as traces of an MLflow run, those that it has none of; returns how many of them it then has.

    Each is the conversation with a feedback for the reward, `solved` and each part and, if `with_answers`, the task's
    answer as the expectation `expected_response`. All get `tags`; with `ROUND_TAG` rollouts are of that round.
    `model_id` is the logged model that answered. A store that fails is warned of once and never raises.
    """
    wanted, there = list(rollouts), set[str]()
    scores = {reward.rollout_id: reward for reward in rewards}
    metadata = {MODEL_ID: model_id} if model_id else {}

    def made(rollout: Rollout) -> tuple[TraceInfo, list[Span]]:
        task, key = tasks.get(rollout.task_id), trace_key(run_id, rollout)
        said = reward_feedback(scores.get(rollout.rollout_id), rewards.weights)
        if with_answers and task is not None and task.answer is not None:
            said.append(Expectation(name=EXPECTED, value=task.answer, source=SOURCE))
        for each in said:  # which run made it, and which span it is about: the root, as MLflow has it
            each.trace_id, each.span_id = trace_id(key), span_key(key, 0).hex()
            each.metadata = {**(each.metadata or {}), SOURCE_RUN: run_id}
        own = {**tags, "rlft.split": task.split} if task else tags
        return trace_of(experiment_id, run_id, rollout, said, prompt_count(rollout, task), own, metadata)

    try:
        with quick_http():
            check_reachable(tracking_uri)
            there = stored_rollouts(tracking_uri, experiment_id, run_id, tags.get(ROUND_TAG))
            traces = (made(rollout) for rollout in wanted if rollout.rollout_id not in there)
            for each in store_traces(TracingClient(tracking_uri), experiment_id, traces):
                there.add(each.tags[ROLLOUT_TAG])
    except Exception as cause:  # a trace is a convenience: whatever the store throws must not stop training
        missing, reason = sum(each.rollout_id not in there for each in wanted), reason_of(cause, tracking_uri)
        logger.warning("%d of %d conversations were not stored as traces. %s", missing, len(wanted), reason)
    return sum(each.rollout_id in there for each in wanted)


def stored_rollouts(tracking_uri: str, experiment_id: str, run_id: str, round: str | None = None) -> set[str]:
    """Return the ids of the rollouts, of one round or of all, that the run has traces of."""
    query = f"metadata.`mlflow.sourceRun` = '{run_id}'" + (
        "" if round is None else f" AND tags.`{ROUND_TAG}` = '{round}'"
    )
    found = {"locations": [experiment_id], "filter_string": query, "include_spans": False, "max_results": 500}
    traces = pages(partial(MlflowClient(tracking_uri=tracking_uri).search_traces, **found))
    return {trace.info.tags.get(ROLLOUT_TAG, "") for trace in traces}


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


def trace_of(
    experiment_id: str,
    run_id: str,
    rollout: Rollout,
    assessments: Sequence[Assessment],
    prompt: int,
    tags: Mapping[str, str],
    metadata: Mapping[str, str],
) -> tuple[TraceInfo, list[Span]]:
    """Return a rollout as a trace of a run, with further `tags` and `metadata`, and its spans.

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
    return info, rollout_spans(rollout, prompt, key, start, end)


def store_traces(
    client: TracingClient, experiment_id: str, traces: Iterable[tuple[TraceInfo, list[Span]]]
) -> Iterator[TraceInfo]:
    """Store traces, and yield each when it is. Raises what the store raises.

    The spans of some go in one request, and before the traces themselves, so that a trace which a search by the run
    finds is complete.
    """
    waiting = iter(traces)
    while together := list(islice(waiting, MOST_TOGETHER)):
        client.log_spans(experiment_id, [span for _, spans in together for span in spans])
        for info, _ in together:
            client.start_trace(info)
            yield info


def reward_feedback(reward: Reward | None, weights: Mapping[str, float]) -> list[Assessment]:
    """Return `reward`, `solved`, and each part that applies as `rewards/<part>` with its weight in the metadata.

    A failed score is an error, not a 0. Without a reward the list is empty.
    """
    if reward is None:
        return []
    if reward.total is None:
        error = AssessmentError(error_code="SCORING_FAILED", error_message=(as_text(reward.error) or "no score")[:1000])
        return [Feedback(name="reward", error=error, source=SOURCE)]
    found: list[Assessment] = [
        Feedback(name=name, value=value, source=SOURCE)
        for name, value in (("reward", reward.total), ("solved", reward.solved))
    ]
    for part, score in reward.parts.items():
        if score is not None:
            weight = {"weight": f"{weights.get(part, 1.0):g}"}
            found.append(Feedback(name=f"rewards/{part}", value=score, source=SOURCE, metadata=weight))
    return found


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
        span_of(
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
            span = span_of(trace_key, index + 1, f"turn {turn}", SpanType.CHAT_MODEL, times, *shown)
        else:
            name, arguments = called(rollout.messages[:index], message)
            failed = message["content"] if message.get("failed") else None
            # A model may call anything a tool, be it ever so long; the call itself stands whole in the turn before.
            name = visible(name)[:_LONGEST_NAME]
            span = span_of(trace_key, index + 1, name, SpanType.TOOL, times, arguments, message["content"], failed)
        spans.append(span)
    return spans


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


def span_of(
    trace_key: bytes,
    place: int,
    name: str,
    kind: str,
    times: tuple[int, int],
    inputs: Any,
    outputs: Any,
    error: str | None = None,
) -> Span:
    """Return one span, made from MLflow's stored form; times are in nanoseconds.

    Place 0 is the root, all others are its children. Inputs and outputs are messages in OpenAI's form, but of a tool.
    """
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

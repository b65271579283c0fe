"""Stores the attempts of an evaluation as MLflow traces with assessments, as `mlflow.genai.evaluate` does."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mlflow import MlflowClient
from mlflow.entities import Assessment, Expectation
from mlflow.tracing.client import TracingClient

from mlops.tracking.reach import check_reachable, quick_http
from mlops.tracking.spans import trace_id
from mlops.tracking.traces import (
    ROLLOUT_TAG,
    SOURCE,
    MadeTrace,
    choose_rollouts,
    prompt_count,
    reward_feedback,
    root_span_id,
    store_traces,
    trace_key,
    trace_of,
)
from mlops.tracking.values import reason_of
from rlft.types import Rewards, Rollout, Rollouts, Task, TaskSet

logger = logging.getLogger(__name__)

EXPECTED = "expected_response"  # the name that MLflow's own scorers read
SOURCE_RUN, MODEL_ID = "mlflow.assessment.sourceRunId", "mlflow.modelId"


def log_attempts(
    tracking_uri: str,
    experiment_id: str,
    run_id: str,
    rollouts: Rollouts,
    rewards: Rewards,
    tasks: TaskSet,
    *,
    model_id: str | None,
    tags: Mapping[str, str],
    limit: int | None,
    more: Mapping[str, Sequence[Assessment]] | None = None,
) -> int:
    """Store attempts as traces of an MLflow run; returns how many the run now has.

    Each trace is the conversation, with a feedback for the reward, `solved` and each part, and the task's answer as the
    expectation `expected_response`. It names the run, and the logged model if there is one. With a `limit` the attempts
    are spread from the worst to the best. `more` are further assessments by rollout id. What the run has already is not
    written again. A store that fails is warned of once and never raises.
    """
    by_id, scores = tasks.by_id(), {reward.rollout_id: reward for reward in rewards}
    wanted = list(rollouts) if limit is None else list(choose_rollouts(rollouts, rewards, limit))
    metadata = {MODEL_ID: model_id} if model_id else {}

    def trace(rollout: Rollout) -> MadeTrace:
        task, key = by_id.get(rollout.task_id), trace_key(run_id, rollout)
        found = reward_feedback(scores.get(rollout.rollout_id), rewards.weights, trace_id(key))
        found += [*expectations(task, trace_id(key)), *(more or {}).get(rollout.rollout_id, ())]
        assessments = _of_run(found, run_id, trace_id(key), root_span_id(key))
        own = {**tags, **({"rlft.split": task.split} if task else {}), "rlft.sample": str(rollout.sample)}
        return trace_of(experiment_id, run_id, rollout, assessments, prompt_count(rollout, task), own, metadata)

    stored = 0
    with quick_http():
        try:
            check_reachable(tracking_uri)
            there = _stored(tracking_uri, experiment_id, run_id)
            stored = len(there)
            missing = [rollout for rollout in wanted if rollout.rollout_id not in there]
            traces = (trace(rollout) for rollout in missing)
            for _ in store_traces(TracingClient(tracking_uri), experiment_id, traces):
                stored += 1
        except Exception as cause:  # a trace is a convenience: the numbers are in the summary
            reason = reason_of(cause, tracking_uri)
            logger.warning(
                "%d of %d conversations were not stored as traces. %s", len(wanted) - stored, len(wanted), reason
            )
    return stored


def expectations(task: Task | None, trace: str) -> list[Assessment]:
    """Return the task's answer as an expectation; nothing where it has none."""
    if task is None or task.answer is None:
        return []
    return [Expectation(name=EXPECTED, value=task.answer, source=SOURCE, trace_id=trace)]


def _of_run(assessments: Sequence[Assessment], run_id: str, trace: str, span_id: str) -> list[Assessment]:
    """Say of each assessment which run made it and which span it is about: the root, as MLflow has it."""
    for each in assessments:
        each.metadata = {**(each.metadata or {}), SOURCE_RUN: run_id}
        each.trace_id, each.span_id = trace, span_id
    return list(assessments)


def _stored(tracking_uri: str, experiment_id: str, run_id: str) -> set[str]:
    """Return the ids of the rollouts that the run has traces of."""
    client = MlflowClient(tracking_uri=tracking_uri)
    query, found, token = f"metadata.`mlflow.sourceRun` = '{run_id}'", set[str](), None
    while True:
        page = client.search_traces(
            locations=[experiment_id], filter_string=query, include_spans=False, max_results=500, page_token=token
        )
        found |= {trace.info.tags.get(ROLLOUT_TAG, "") for trace in page}
        token = page.token
        if not token:
            return found

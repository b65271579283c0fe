"""What people asked a served model, read from MLflow's traces for `rlft.tasks.use`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Assessment, AssessmentSourceType, Trace, TraceState

from mlops.tracking.address import PATIENT_HTTP, answering, pages, tracking_address
from mlops.tracking.run import active_experiment
from rlft.config import UseConfig
from rlft.errors import TaskError
from rlft.tasks.contamination import Text
from rlft.tasks.use import Record, Said, Use

_PAGE = 200  # traces with their spans, which may be large


def fetch_use(settings: UseConfig | None, tracking_uri: str, demonstrations: Sequence[Text]) -> Use | None:
    """Return the records of use that the settings ask for; `None` without settings or an address (`""`).

    `demonstrations` are what the run imitates. Raises TaskError if the experiment is not there, and TrackerError if it
    is deleted or MLflow does not answer.
    """
    if settings is None or not tracking_uri:
        return None
    address = tracking_address(tracking_uri)
    start = None if settings.days is None else datetime.now(UTC) - timedelta(days=settings.days)
    with answering(address, PATIENT_HTTP):
        return Use(
            where=f"the traces of {settings.experiment}",
            records=find_traces(address, settings.experiment, settings.tags, start),
            demonstrations=tuple(demonstrations),
        )


def find_traces(
    tracking_uri: str, experiment: str, tags: Mapping[str, str], start: datetime | None
) -> tuple[Record, ...]:
    """Return the traces of an experiment that have all these tags, asked at `start` or later.

    Raises TaskError if there is no such experiment, TrackerError if it is deleted, and what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    found = active_experiment(client, experiment)
    if found is None:
        raise TaskError(
            f"MLflow has no experiment {experiment!r}",
            where="tasks.use.experiment",
            fix="serve a version with --log-conversations, which makes NAME-served, or correct the name",
        )
    asked = {"locations": [found.experiment_id], "order_by": ["timestamp_ms ASC"], "max_results": _PAGE}
    search = partial(client.search_traces, filter_string=trace_filter(tags, start) or None, **asked)
    return tuple(map(record_of_trace, pages(search)))


def trace_filter(tags: Mapping[str, str], start: datetime | None) -> str:
    """Return the filter by tags and time in MLflow's language; an empty text without either."""
    parts = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
    parts += [f"timestamp_ms >= {round(start.timestamp() * 1000)}"] if start else []
    return " AND ".join(parts)


def record_of_trace(trace: Trace) -> Record:
    """Return a trace as a record: inputs and outputs of its root span, and what people said."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    info = trace.info
    return Record(
        id=info.trace_id,
        inputs=_read(info.request_preview) if root is None else root.inputs,
        output=_read(info.response_preview) if root is None else root.outputs,
        time=info.request_time,
        failed=info.state == TraceState.ERROR,
        said=tuple(said for each in info.assessments or () if (said := _said(each)) is not None),
    )


def _said(assessment: Assessment) -> Said | None:
    """Return what a person said; `None` for what a program said, what is no value, and what a later one replaces."""
    source = assessment.source
    if assessment.valid is False or source is None or source.source_type != AssessmentSourceType.HUMAN:
        return None
    person = "" if source.source_id in (None, "default") else str(source.source_id)
    time = assessment.last_update_time_ms or assessment.create_time_ms or 0
    if assessment.expectation is not None:
        return Said(person, "expectation", assessment.name, assessment.expectation.value, time)
    if assessment.feedback is not None and assessment.error is None:
        return Said(person, "feedback", assessment.name, assessment.feedback.value, time)
    return None


def _read(preview: str | None) -> Any:
    """Return what a trace without spans shows, as JSON where it is that."""
    try:
        return json.loads(preview or "null")
    except ValueError:
        return preview

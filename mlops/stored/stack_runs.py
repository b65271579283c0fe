"""Lists the runs of a stack through ZenML and MLflow: those of everybody who shares it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from zenml.client import Client

from mlops.home.folder import Home
from mlops.home.processes import resume_command
from mlops.ids import OTHERS, PIPELINE
from mlops.registry.client import RegistryClient
from mlops.runs.finding import UNFINISHED, is_alive, name_of, pipeline_of
from mlops.runs.listed import Attempt, ListedRun
from mlops.runs.listing import Listing, status_of
from mlops.stored.summaries import mlflow_run_of, summary_in_mlflow
from mlops.summary.file import read_summary
from mlops.summary.result import EARLIER_GPU_HOURS, GPU_HOURS
from mlops.summary.summary import Summary
from mlops.tracking.answers import answering
from rlft.errors import FormatVersionError, TrackerError

_PAGE, _THREADS = 100, 8


def list_stack_runs(home: Home, limit: int) -> Listing:
    """Return the newest `limit` runs (0: all) of the active stack, newest first.

    Summaries come from the home or from MLflow; where that does not answer, the listing's problems say so.
    """
    groups: dict[str, list[Any]] = {}
    for run in _runs_of_stack():
        if (name := name_of(run)) not in groups and limit and len(groups) == limit:
            break
        groups.setdefault(name, []).append(run)
    problems: list[str] = []
    stack = str(Client().active_stack_model.name)
    with ThreadPoolExecutor(_THREADS) as threads:  # most of the time is waiting for MLflow
        found = list(threads.map(lambda name: _listed(home, name, groups[name], stack, problems), groups))
    return Listing(found, problems)


def _runs_of_stack() -> Iterator[Any]:
    """Yield ZenML's responses of all attempts, the newest first."""
    client = Client()
    page = 1
    while True:
        found = client.list_pipeline_runs(
            stack_id=client.active_stack_model.id, sort_by="desc:created", page=page, size=_PAGE, hydrate=True
        )
        yield from (run for run in found if pipeline_of(run) in (PIPELINE, *OTHERS))
        if page >= found.total_pages:
            return
        page += 1


def _listed(home: Home, name: str, runs: list[Any], stack: str, problems: list[str]) -> ListedRun:
    noted = [mlflow_run_of(run) for run in runs]
    attempts = tuple(_attempt(home, run, problems) for run in runs)
    ids = tuple(dict.fromkeys(each[1] for each in noted if each))
    alive = {str(run.id) for run in runs if run.status in UNFINISHED and is_alive(home, run)}
    address = next((each[0] for each in noted if each), None)
    version, aliases, hours = _registered(address, ids, problems) if address else (None, (), None)
    status = status_of(attempts, alive)
    is_resumed = status == "interrupted" and attempts[0].pipeline == PIPELINE
    return ListedRun(
        name,
        attempts,
        status,
        again=resume_command(name, stack) if is_resumed else "",
        gpu_hours=hours,
        mlflow_runs=ids,
        version=version,
        aliases=aliases,
        by=runs[-1].user.name if runs[-1].user else "",
    )


def _attempt(home: Home, run: Any, problems: list[str]) -> Attempt:
    began = _utc(run.start_time or run.created)
    seconds = (_utc(run.end_time) - began).total_seconds() if run.end_time else 0.0
    summary = _summary(home, run, problems)
    if summary and summary.seconds.total:
        seconds = summary.seconds.total
    return Attempt(str(run.id), run.name, run.status.value, began, seconds, summary, pipeline_of(run))


def _summary(home: Home, run: Any, problems: list[str]) -> Summary | None:
    if pipeline_of(run) != PIPELINE:
        return None
    try:
        own = read_summary(home, str(run.id))
        if own is not None and own.status != "running":
            return own
        noted = mlflow_run_of(run)
        return summary_in_mlflow(*noted) if noted else own
    except FormatVersionError as other:
        problems.append(f"{other.where}: {other.what}. Its results are not shown: {other.fix}")
        return None


def _registered(
    address: str, ids: tuple[str, ...], problems: list[str]
) -> tuple[tuple[str, str] | None, tuple[str, ...], float | None]:
    """Return the version that a run has registered, its aliases, and the hours of GPUs, as far as MLflow answers."""
    try:
        with answering(address):
            client = RegistryClient(address)
            told = [client.get_run(one).data.metrics for one in ids]
            hours = [each.get(GPU_HOURS, each.get(EARLIER_GPU_HOURS)) for each in told]
            found = [version for one in ids for version in client.search_model_versions(f"run_id = '{one}'")]
            newest = max(found, key=lambda version: int(version.version), default=None)
            aliases = client.get_registered_model(newest.name).aliases if newest else {}
    except TrackerError as away:
        if (said := f"{away}: versions and GPU hours are not known") not in problems:
            problems.append(said)
        return None, (), None
    spent = [each for each in hours if each is not None]
    version = (newest.name, str(newest.version)) if newest else None
    named = {(newest.name, str(each.version)) for each in found} if newest else set()
    own = tuple(sorted(alias for alias, of in aliases.items() if newest and (newest.name, str(of)) in named))
    return version, own, sum(spent) if spent else None


def _utc(when: datetime) -> datetime:
    """ZenML's times are in UTC, some without a zone."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when

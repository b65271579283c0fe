"""Runs of the past: find one, tell whether it is alive, mark a killed one as failed, resume it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import PipelineRunResponse, PipelineRunUpdate

from pipelines.home import Home
from rlft.errors import RlftError

PIPELINE = "train"
UNFINISHED = (ExecutionStatus.INITIALIZING, ExecutionStatus.RUNNING)
STARTING_SECONDS = 60


def find_run(name: str) -> PipelineRunResponse:
    """A run by id, name, or the beginning of either. Raises RlftError when there is none or several."""
    try:
        return Client().get_pipeline_run(name)
    except (KeyError, ValueError) as cause:
        recent = [run.name for run in recent_runs(5)]
        raise RlftError(
            f"no single run is called {name!r}",
            where="RUN",
            fix=f"the newest runs are: {', '.join(recent) or 'none'}",
        ) from cause


def recent_runs(count: int) -> list[PipelineRunResponse]:
    """The newest runs, newest first."""
    return list(Client().list_pipeline_runs(pipeline=PIPELINE, sort_by="desc:created", size=count))


def root_run(run: PipelineRunResponse) -> PipelineRunResponse:
    """The run that this one resumes, resumes of resumes included; the run itself if it resumes none."""
    while run.original_run:
        run = Client().get_pipeline_run(run.original_run.id)
    return run


def note_process(home: Home, run_id: str) -> None:
    """Leave this process's identity, so that a later one can tell whether the run is alive."""
    process = psutil.Process()
    file = _process_file(home, run_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"pid": process.pid, "started": process.create_time()}))


def forget_process(home: Home, run_id: str) -> None:
    """The run has ended by itself."""
    _process_file(home, run_id).unlink(missing_ok=True)


def is_alive(home: Home, run: PipelineRunResponse) -> bool:
    """Whether the process of the run still exists; a process id that was given to another program does not count.

    A run that has left no process yet is taken for one that is just starting, for a while.
    """
    file = _process_file(home, str(run.id))
    if not file.is_file():
        return (datetime.now(UTC) - run.created.replace(tzinfo=UTC)).total_seconds() < STARTING_SECONDS
    try:
        noted: dict[str, Any] = json.loads(file.read_text())
        return abs(psutil.Process(noted["pid"]).create_time() - noted["started"]) < 1
    except (psutil.Error, ValueError, KeyError):
        return False


def killed_runs(home: Home) -> list[PipelineRunResponse]:
    """Runs that ZenML takes for running, and whose process is gone."""
    running = [
        run for status in UNFINISHED for run in Client().list_pipeline_runs(pipeline=PIPELINE, status=status, size=100)
    ]
    return [run for run in running if not is_alive(home, run)]


def mark_failed(home: Home, run: PipelineRunResponse) -> None:
    """Tell ZenML that a killed run has failed, so that it can be resumed."""
    Client().zen_store.update_run(run.id, PipelineRunUpdate(status=ExecutionStatus.FAILED))
    forget_process(home, str(run.id))


def newest_attempt(run: PipelineRunResponse) -> PipelineRunResponse:
    """The newest run of those that began as the same one: the run itself, or the last resume of it."""
    root = root_run(run).id
    attempts = [other for other in recent_runs(1000) if other.id == root or root_run(other).id == root]
    return attempts[0] if attempts else run


def make_resumable(home: Home, run: PipelineRunResponse) -> None:
    """Check that a run can be resumed, and mark it failed if it was killed. Raises RlftError otherwise."""
    if run.status == ExecutionStatus.COMPLETED:
        raise RlftError(
            f"{run.name} has finished", where="RUN", fix="nothing is left to do; `rlft run` starts a new one"
        )
    if run.status in UNFINISHED and is_alive(home, run):
        raise RlftError(f"{run.name} is still going on", where="RUN", fix="wait for it, or end its process first")
    if run.status in UNFINISHED:
        mark_failed(home, run)


def _process_file(home: Home, run_id: str) -> Path:
    return home.root / "runs" / f"{run_id}.process.json"

"""Runs in ZenML: finds one, tells whether it is alive, ends one that was killed, chooses the attempt to resume."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import PipelineRunResponse, PipelineRunUpdate, StepRunUpdate

from mlops.home.folder import Home
from mlops.home.processes import forget_process, goes_on, read_note
from mlops.ids import (
    EVALUATE,
    EVALUATION,
    KINDS,
    OTHERS,
    PIPELINE,
    RUN_TAG,
    depends_on_champion,
    name_of_first,
)
from mlops.registry.names import REGISTRATION
from mlops.runs.labels import labels_of
from mlops.runs.listing import unknown_run
from mlops.runs.noting import SILENT_SECONDS, close_model_version, note_artifacts, silent_seconds
from mlops.runs.store import RunStore, stored_config
from mlops.summary.file import end_summary, read_summary
from mlops.summary.summary import Summary
from mlops.tracking.address import HOME
from rlft.errors import RlftError

KILLED = "the process was killed"
UNFINISHED = (ExecutionStatus.INITIALIZING, ExecutionStatus.RUNNING)


def find_run(name: str) -> PipelineRunResponse:
    """Return a run by id, name, or the beginning of either. Raises RlftError if there is none or several."""
    try:
        return Client().get_pipeline_run(name)
    except (KeyError, ValueError) as cause:
        recent = Client().list_pipeline_runs(pipeline=PIPELINE, sort_by="desc:created", size=1000)
        names = list(dict.fromkeys(name_of_first(run.name) for run in recent))
        raise unknown_run(name, names) from cause


def pipeline_of(run: PipelineRunResponse) -> str:
    """Return the name of the pipeline that a run is of."""
    return PIPELINE if run.pipeline is None else run.pipeline.name


def root_run(run: PipelineRunResponse) -> PipelineRunResponse:
    """Return the first attempt at a run: the one that it resumes in the end, or itself if it resumes none."""
    while run.original_run:
        run = Client().get_pipeline_run(run.original_run.id)
    return run


def name_of(run: PipelineRunResponse) -> str:
    """Return the name that a person calls the run, which all attempts at it share."""
    return labels_of((run.config.parameters or {}).get("labels"), name_of_first(run.name)).name


def attempts_of(run: PipelineRunResponse) -> list[PipelineRunResponse]:
    """Return all attempts at a run, newest first: what it resumes, what resumes it, and itself.

    They share a tag.
    """
    tag = f"equals:{RUN_TAG}={name_of(run)}"
    return list(Client().list_pipeline_runs(tags=tag, sort_by="desc:created", size=1000)) or [run]


def later_attempt(run: PipelineRunResponse) -> PipelineRunResponse | None:
    """Return the newest attempt at a run that was begun after this one; `None` if there is none."""
    newest = attempts_of(run)[0]
    return newest if newest.id != run.id and newest.created > run.created else None


def is_alive(home: Home, run: PipelineRunResponse) -> bool:
    """Return whether the process of the run still exists, or may be starting.

    That of a run which another home has begun on a stack cannot be seen from here: it counts as alive until ZenML has
    had no sign of life for `SILENT_SECONDS`. One that a signal has ended is gone, whether or not ZenML could be told.
    """
    summary = read_summary(home, str(run.id))
    if summary is not None and summary.status == "interrupted":
        return False
    if read_note(home, str(run.id)) is None and is_on_stack(run):
        return silent_seconds(run) < SILENT_SECONDS
    return goes_on(home, str(run.id), run.created.replace(tzinfo=UTC))


def is_on_stack(run: PipelineRunResponse) -> bool:
    """Return whether a run uses the MLflow of a stack and not that of a home."""
    return (run.config.parameters or {}).get("tracking_uri", HOME) != HOME


def last_sign(home: Home, run_id: str, name: str) -> datetime | None:
    """Return when something of an attempt at the run of this name was last written, in UTC; `None` if nothing is there.

    It is asked before the run is marked as failed: that changes its files.
    """
    found, runs = list[datetime](), home.root / "runs"
    for file in (*runs.glob(f"{run_id}.*"), *(runs / name).glob("*.json")):
        with suppress(OSError):
            found.append(datetime.fromtimestamp(file.stat().st_mtime, UTC))
    return max(found, default=None)


def mark_failed(home: Home, run: PipelineRunResponse) -> None:
    """Tell ZenML and the run's summary that a killed run has failed, so that it can be resumed.

    Its time ends with its last sign of life, if there is one here.
    """
    last = last_sign(home, str(run.id), name_of(run))
    end = None if last is None else last.replace(tzinfo=None)
    failed_step = StepRunUpdate(status=ExecutionStatus.FAILED, end_time=end)
    for step in Client().list_run_steps(pipeline_run_id=run.id, status=ExecutionStatus.RUNNING, size=100):
        Client().zen_store.update_run_step(step.id, failed_step)
    Client().zen_store.update_run(run.id, PipelineRunUpdate(status=ExecutionStatus.FAILED))
    close_model_version(run, Summary(status="failed"))
    began = run.start_time or run.created
    seconds = None if last is None else max(0.0, (last - began.replace(tzinfo=UTC)).total_seconds())
    end_summary(home, str(run.id), KILLED, seconds)
    note_artifacts(RunStore(home), name_of(run), str(run.id))  # of the round in which it was killed
    RunStore(home).end(name_of(run), str(run.id), "failed", last)
    forget_process(home, str(run.id))


def resumable_attempt(home: Home, run: PipelineRunResponse, *, finished: bool = False) -> PipelineRunResponse:
    """Return the attempt at a run with the most finished steps, and mark those that were killed as failed.

    It is not simply the newest: a resume that was cut short may have repeated less than the run that it resumes. Raises
    RlftError if an attempt still goes on, has finished (unless `finished` is taken, too), or was made by an rlft whose
    formats are not read, and for an evaluation or a replay.
    """
    if (kind := pipeline_of(run)) in OTHERS:
        anew = " (--no-cache makes it anew)" if kind == EVALUATE else ""
        raise RlftError(
            f"{run.name} is {KINDS[kind]}, and no run that is resumed",
            where="RUN",
            fix=f"give its `rlft {kind}` command again: what is done is in the cache{anew}",
        )
    attempts = attempts_of(run)
    for attempt in attempts:
        if attempt.status == ExecutionStatus.COMPLETED and not finished:
            raise RlftError(
                f"{attempt.name} has finished", where="RUN", fix="nothing is left to do; `rlft run` starts a new one"
            )
        if attempt.status in UNFINISHED and is_alive(home, attempt):
            raise _still_going_on(home, attempt)
    check_readable(home, attempts)
    for attempt in attempts:
        if attempt.status in UNFINISHED:
            mark_failed(home, attempt)
    return max(attempts, key=lambda attempt: len(successful_steps(attempt)))  # the newest, if several have as many


def _still_going_on(home: Home, attempt: PipelineRunResponse) -> RlftError:
    fix = "wait for it, or end its process first"
    if read_note(home, str(attempt.id)) is None and is_on_stack(attempt):
        seen = f"It was begun elsewhere, and last seen {silent_seconds(attempt):.0f} s ago"
        fix = f"wait for it. {seen}; if it was killed, it can be resumed {SILENT_SECONDS:.0f} s after that"
    return RlftError(f"{attempt.name} is still going on", where="RUN", fix=fix)


def finished_steps(run: PipelineRunResponse) -> set[str]:
    """Return the ids of the steps of an attempt that another one need not repeat.

    Until the policy is registered, those that depend on the champion are not among them: another run may have become
    champion since. What has not changed they take from the cache.
    """
    done = successful_steps(run)
    return done if REGISTRATION in done else {step for step in done if not depends_on_champion(step)}


def steps_before_decision(run: PipelineRunResponse) -> set[str]:
    """Return the ids of the steps of an attempt that need not be repeated when it is decided on once more.

    Evaluations are made again from the stored rollouts, or taken from the cache: an earlier rlft has measured less.
    """
    again = f"{EVALUATION.step}_"
    return {step for step in successful_steps(run) if not depends_on_champion(step) and not step.startswith(again)}


def successful_steps(run: PipelineRunResponse) -> set[str]:
    """Return the ids of all steps of an attempt that have succeeded."""
    steps = Client().list_run_steps(pipeline_run_id=run.id, size=10_000)
    return {step.name for step in steps if step.status.is_successful}


def check_readable(home: Home, attempts: Iterable[PipelineRunResponse]) -> None:
    """Raise FormatVersionError or ConfigError if another rlft has made one of the attempts, which is not read here."""
    for attempt in attempts:
        if content := (attempt.config.parameters or {}).get("config"):
            stored_config(content, attempt.name)
        read_summary(home, str(attempt.id))

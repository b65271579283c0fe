"""Runs in ZenML: finds one, notes its artifacts, says if it is alive, ends a killed one, chooses the one to resume.

Another home that shares a stack sees no process, and goes by what ZenML says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import ArtifactVersionResponse, PipelineRunResponse, PipelineRunUpdate, StepRunResponse, StepRunUpdate

from mlops.home.folder import Home
from mlops.home.processes import goes_on
from mlops.ids import (
    EVALUATE,
    EVALUATION,
    KINDS,
    OTHERS,
    PIPELINE,
    ROLLOUTS,
    RUN_TAG,
    depends_on_champion,
    name_of_first,
)
from mlops.registry.names import REGISTRATION
from mlops.runs.labels import labels_of
from mlops.runs.listing import unknown_run
from mlops.runs.store import LocalRun, RunStore, stored_config
from mlops.summary.file import end_summary, read_result, read_summary
from mlops.tracking.address import HOME
from rlft.errors import RlftError, shortage_of

logger = logging.getLogger(__name__)
_SAMPLED = ("rollouts", "sampled_tokens")  # metadata of rollouts
_CODE = ("environment_fingerprint", "reward_fingerprint")  # parameters of steps


def note_artifacts(store: RunStore, name: str, run_id: str) -> None:
    """Note the steps of an attempt that have ended since this was called last; nothing is raised.

    Nothing is noted of a run that has no folder, which one on a stack has not.
    """
    try:
        if (run := store.called(name)) is not None:
            _note(run, run_id)
    except Exception as cause:  # a server or a disk that is away is told of by whatever needs it more
        level = logging.WARNING if shortage_of(cause) is None else logging.DEBUG
        logger.log(level, "the table of the run's artifacts could not be written: %s", cause)


def _note(run: LocalRun, run_id: str) -> None:
    attempt, steps = run.attempt(run_id), dict(run.steps)
    since = attempt.get("noted", "2000-01-01 00:00:00")
    found = Client().list_run_steps(
        pipeline_run_id=run_id, created=f"gte:{since}", sort_by="asc:created", size=10_000, hydrate=True
    )
    own = {each["place"] for known in steps.values() for each in known["outputs"].values()}
    for step in found:
        if not step.status.is_successful:
            continue
        known = steps.get(step.name, {})
        if known.get("id") != str(step.id):
            facts = _facts(run, step, own)
            # What an earlier attempt has made stays noted with the seconds that it took.
            if not (facts["cached"] and known.get("outputs") == facts["outputs"]):
                steps[step.name] = facts
            if not facts["cached"]:
                attempt["tokens"] = attempt.get("tokens", 0) + facts.get("sampled_tokens", 0)
        attempt["noted"] = f"{step.created:%Y-%m-%d %H:%M:%S}"
    run.keep_steps(steps)
    run.keep()


def _facts(run: LocalRun, step: StepRunResponse, own: set[str]) -> dict[str, Any]:
    outputs = {name: _artifact(run, made[0]) for name, made in step.outputs.items() if made}
    own |= {each["place"] for each in outputs.values()}
    given = {name: read[0] for name, read in step.inputs.items() if read and _place(run, read[0].uri) not in own}
    rollouts = step.outputs.get(ROLLOUTS.output)
    noted = rollouts[0].run_metadata if rollouts else {}
    return {
        "id": str(step.id),
        "began": _time(step.start_time),
        "ended": _time(step.end_time),
        "cached": step.status != ExecutionStatus.COMPLETED,
        "outputs": outputs,
        **({"inputs": {name: _artifact(run, read) for name, read in given.items()}} if given else {}),
        **{key: noted[key] for key in _SAMPLED if key in noted},
        **{key: value for key in _CODE if (value := step.config.parameters.get(key))},
    }


def _artifact(run: LocalRun, artifact: ArtifactVersionResponse) -> dict[str, Any]:
    return {"place": _place(run, artifact.uri), "files": artifact.run_metadata.get("files", {})}


def _place(run: LocalRun, uri: str) -> str:
    """Return where an artifact lies; below the home as a path in it, so that a home can be moved."""
    place = Path(uri)
    return str(place.relative_to(run.home.root) if place.is_relative_to(run.home.root) else place)


def _time(when: datetime | None) -> str | None:
    return when and utc(when).isoformat()


def utc(when: datetime) -> datetime:
    """Return a time of ZenML's with its zone: they are in UTC, some without one."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


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


def folder_of(home: Home, run: PipelineRunResponse) -> Path:
    """Return the folder of a run in a home, where it has left what it has come to if it was begun there."""
    return home.run_folder(name_of(run), shared=is_on_stack(run))


def is_alive(home: Home, run: PipelineRunResponse) -> bool:
    """Return whether another process goes on with the run.

    That of a run which another home has begun on a stack cannot be seen from here: it counts as alive while ZenML says
    that it goes on.
    """
    return _is_elsewhere(home, run) or goes_on(folder_of(home, run))


def _is_elsewhere(home: Home, run: PipelineRunResponse) -> bool:
    """Return whether an attempt was begun in another home: what it comes to is not written here."""
    return is_on_stack(run) and (read_result(folder_of(home, run)) or {}).get("pipeline_run_id") != str(run.id)


def is_on_stack(run: PipelineRunResponse) -> bool:
    """Return whether a run uses the MLflow of a stack and not that of a home."""
    return (run.config.parameters or {}).get("tracking_uri", HOME) != HOME


def mark_failed(home: Home, run: PipelineRunResponse) -> None:
    """Tell ZenML and the run's summary that a killed run has failed, so that it can be resumed.

    Its time ends when something was last written in its folder, if it has one here.
    """
    folder = folder_of(home, run)
    written = [datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in folder.glob("*.json")]
    last = max(written, default=None)
    end = None if last is None else last.replace(tzinfo=None)
    failed_step = StepRunUpdate(status=ExecutionStatus.FAILED, end_time=end)
    for step in Client().list_run_steps(pipeline_run_id=run.id, status=ExecutionStatus.RUNNING, size=100):
        Client().zen_store.update_run_step(step.id, failed_step)
    Client().zen_store.update_run(run.id, PipelineRunUpdate(status=ExecutionStatus.FAILED))
    began = run.start_time or run.created
    seconds = None if last is None else max(0.0, (last - began.replace(tzinfo=UTC)).total_seconds())
    end_summary(folder, KILLED, seconds)
    note_artifacts(RunStore(home), name_of(run), str(run.id))  # of the round in which it was killed
    RunStore(home).end(name_of(run), str(run.id), "failed", last)


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
    if _is_elsewhere(home, attempt):
        refresh = f"`zenml pipeline runs refresh {attempt.name}`, which asks the cluster"
        fix = f"resume it where it was begun, or after {refresh}; a new run takes what is done from the cache"
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
        read_summary(folder_of(home, attempt))

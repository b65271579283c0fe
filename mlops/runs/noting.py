"""What a run notes of its steps' artifacts in its folder, and when ZenML has last seen one of another home.

Another home that shares a stack sees no process, and asks ZenML for the newest step.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import ArtifactVersionResponse, StepRunResponse

from mlops.ids import ROLLOUTS
from mlops.runs.store import LocalRun, RunStore
from rlft.errors import shortage_of

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


SILENT_SECONDS = 86_400.0  # after so long without a new step a run of another home counts as killed


def silent_seconds(run: Any) -> float:
    """Return how long ago the newest step of a run (ZenML's response) was begun, or the run itself."""
    steps = Client().list_run_steps(pipeline_run_id=run.id, sort_by="desc:created", size=1)
    newest = next((step.created for step in steps), run.created)
    return max((datetime.now(UTC) - utc(newest)).total_seconds(), 0.0)


def utc(when: datetime) -> datetime:
    """Return a time of ZenML's with its zone: they are in UTC, some without one."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)

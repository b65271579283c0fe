"""Notes in the folder of a run which artifacts its steps have made, by ZenML's client, while the run goes on."""

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
from rlft.shortage import shortage_of

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
        if steps.get(step.name, {}).get("id") != str(step.id):
            steps[step.name] = _facts(run, step, own)
            if not steps[step.name]["cached"]:
                attempt["tokens"] = attempt.get("tokens", 0) + steps[step.name].get("sampled_tokens", 0)
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
    """ZenML's times are in UTC, some without a zone."""
    return when and when.replace(tzinfo=UTC).isoformat()

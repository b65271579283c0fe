"""A run as ZenML's and MLflow's clients tell it, for those who share a stack, and for pipelines that go on.

`SharedRun` answers what `mlops.runs.store.LocalRun` reads from files.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from zenml.client import Client
from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.ids import OTHERS, PIPELINE, Stored
from mlops.runs.finding import UNFINISHED, attempts_of, find_run, folder_of, is_alive, name_of, pipeline_of, utc
from mlops.runs.listing import Attempt, ListedRun, Listing, status_of
from mlops.summary.file import SUMMARY_FILE, read_result, read_summary, summary_of_text
from mlops.summary.summary import Summary
from mlops.tracking.address import HOME, answering, tracking_address
from mlops.tracking.run import noted_code
from rlft.errors import DamagedError, TrackerError


def stored_summary(home: Home, run: Any) -> Summary | None:
    """Return what came of a run (ZenML's response), of whichever attempt; `None` if it has left no summary.

    The home has that of the newest attempt, or MLflow, if another home has begun it, or it still says `running`.
    """
    return _summary_of(home, attempts_of(run))


def _summary_of(home: Home, attempts: list[Any]) -> Summary | None:
    own = read_summary(folder_of(home, attempts[0]))
    if own is not None and own.status != "running" and own.pipeline_run_id == str(attempts[0].id):
        return own
    noted = next(filter(None, map(mlflow_run_of, attempts)), None)  # all attempts have the same
    return (noted and summary_in_mlflow(*noted)) or own


def mlflow_run_of(run: Any) -> tuple[str, str] | None:
    """Return the address of a stack's MLflow and the id of a run's run in it; `None` for a run in a home."""
    address = (run.config.parameters or {}).get("tracking_uri")
    run_id = run.run_metadata.get("mlflow_run_id")
    return (str(address), str(run_id)) if address and run_id and address != HOME else None


def summary_in_mlflow(address: str, run_id: str) -> Summary | None:
    """Return the summary among the artifacts of an MLflow run; `None` if there is none, or MLflow does not answer."""
    client = MlflowClient(tracking_uri=tracking_address(address))
    try:
        with answering(address), tempfile.TemporaryDirectory() as folder:
            file = Path(client.download_artifacts(run_id, SUMMARY_FILE, folder))
            return summary_of_text(file.read_text(encoding="utf-8"), f"{SUMMARY_FILE} of the MLflow run {run_id}")
    except (TrackerError, MlflowException, OSError):  # of a run that was killed there is none
        return None


@dataclass
class SharedRun:
    """A run of ZenML's; `found` is its response, of whichever attempt."""

    home: Home
    found: PipelineRunResponse

    @property
    def name(self) -> str:
        """What a person calls it."""
        return name_of(self.found)

    @property
    def id(self) -> str:
        """ZenML's id of the attempt."""
        return str(self.found.id)

    @property
    def pipeline(self) -> str:
        """The pipeline that it is of."""
        return pipeline_of(self.found)

    @property
    def began(self) -> datetime:
        """When it was begun, in UTC."""
        return self.found.created.replace(tzinfo=UTC)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """What its pipeline was begun with, of the attempt that has settings; empty if none has."""
        given = (attempt.config.parameters or {} for attempt in self._attempts)
        return next((each for each in given if each.get("config")), {})

    @property
    def config(self) -> dict[str, Any]:
        """Its settings, as `mlops.runs.store` stores them; empty if it has none."""
        return self.parameters.get("config") or {}

    @cached_property
    def _attempts(self) -> list[PipelineRunResponse]:
        return [self.found, *(other for other in attempts_of(self.found) if other.id != self.found.id)]

    def output(self, stored: Stored, name: str) -> Any:
        """Return what a step stored at the call of this name; `None` if there is no such call or it has not ended.

        What a replay has taken from the run that it is made of counts as its own. Raises DamagedError if the files are
        gone, or are not what was stored.
        """
        artifact = self.artifact(stored, name)
        if artifact is None:
            return None
        try:
            return artifact.load()
        except DamagedError as damage:
            raise damage.of(self.name, stored.step_id(name)) from damage

    def artifact(self, stored: Stored, name: str) -> Any:
        """Return ZenML's artifact version of what `output` returns, which steps of other runs can be given."""
        for attempt in self._attempts:
            if (step := _step(attempt, stored.step_id(name))) and (made := step.outputs.get(stored.output)):
                return made[0]
            for reader in stored.readers(name):
                if (step := _step(attempt, reader)) and (given := step.inputs.get(stored.output)):
                    return given[0]
        return None

    def noted_of_step(self, stored: Stored, name: str, key: str) -> str:
        """Return what a step of this call was given as `environment_fingerprint` or `reward_fingerprint`, if it was."""
        steps = (_step(attempt, stored.step_id(name)) for attempt in self._attempts)
        noted = (step.config.parameters.get(key) for step in steps if step)
        return str(next(filter(None, noted), ""))

    def step_ids(self, begin: str) -> list[str]:
        """Return the ids of its steps that begin so, in the order in which they were run."""
        steps = [
            step
            for attempt in self._attempts
            for step in Client().list_run_steps(pipeline_run_id=attempt.id, name=f"startswith:{begin}", size=1000)
        ]
        return list(dict.fromkeys(step.name for step in sorted(steps, key=lambda step: step.created)))

    def sibling(self, asked: str) -> SharedRun:
        """Return another run. Raises RlftError if there is none of this name."""
        return SharedRun(self.home, find_run(asked))

    def summary(self) -> Summary | None:
        """Return its summary; `None` if it has left none, or is none that trains. Raises FormatVersionError."""
        return stored_summary(self.home, self.found)

    def status(self) -> str:
        """Return the status in its summary; `unknown` if it has none."""
        if (summary := self.summary()) is not None:
            return summary.status
        return (read_result(folder_of(self.home, self.found)) or {}).get("status", "unknown")

    def code(self) -> dict[str, Any]:
        """Return what the newest attempt has noted of its code (`mlops.runs.identity.identity_facts`)."""
        address, summary = self.parameters.get("tracking_uri"), self.summary()
        return noted_code(tracking_address(address), summary.mlflow_run_id) if address and summary else {}


def _step(attempt: PipelineRunResponse, step: str) -> Any:
    for found in Client().list_run_steps(pipeline_run_id=attempt.id, name=step, size=1):
        return Client().get_run_step(found.id)
    return None


_ATTEMPTS = 10  # so many of ZenML's runs are asked for each run that is to be listed: evaluations and resumes, too


def list_shared_runs(home: Home, limit: int) -> Listing:
    """Return the newest `limit` runs (0: as many as ZenML gives at once) that anybody has begun on the active stack.

    What each came to is read from its summary in MLflow.
    """
    size = min(limit * _ATTEMPTS, 10_000) or 10_000
    stack = Client().active_stack_model.id
    newest = Client().list_pipeline_runs(stack_id=stack, sort_by="desc:created", size=size, hydrate=True)
    groups: dict[str, list[PipelineRunResponse]] = {}
    for run in newest:
        if pipeline_of(run) in (PIPELINE, *OTHERS):
            groups.setdefault(name_of(run), []).append(run)
    return Listing([_listed(home, name, groups[name]) for name in list(groups)[: limit or None]])


def _listed(home: Home, name: str, found: list[PipelineRunResponse]) -> ListedRun:
    summary = _summary_of(home, found)
    attempts = tuple(
        Attempt(
            str(run.id),
            run.name,
            run.status.value,
            utc(run.created),
            (utc(run.end_time) - utc(run.created)).total_seconds() if run.end_time else 0.0,
            pipeline_of(run),
        )
        for run in found
    )
    alive = any(run.status in UNFINISHED and is_alive(home, run) for run in found)
    return ListedRun(name, attempts, status_of(attempts, alive, summary), summary=summary)

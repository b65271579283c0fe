"""A run as ZenML's and MLflow's clients tell it, for those who share a stack, and for pipelines that go on.

It answers what `mlops.runs.store.LocalRun` reads from files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from zenml.client import Client
from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.ids import Stored
from mlops.runs.finding import attempts_of, find_run, name_of, pipeline_of
from mlops.stored.summaries import stored_summary
from mlops.summary.replays import read_replay
from mlops.summary.summary import Summary
from mlops.tracking.address import tracking_address
from mlops.tracking.noted_code import noted_code
from rlft.errors import DamagedError


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
        """Its settings, as `mlops.runs.settings` stores them; empty if it has none."""
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
        """Return the summary of the newest attempt that has left one. Raises FormatVersionError."""
        return stored_summary(self.home, self.found)

    def status(self) -> str:
        """Return the status in its summary, of a replay in that of the replay; `unknown` if it has none."""
        if (summary := self.summary()) is not None:
            return summary.status
        replays = (read_replay(self.home, str(each.id)) for each in self._attempts)
        return next((str(each.get("status") or "unknown") for each in replays if each is not None), "unknown")

    def code(self) -> dict[str, Any]:
        """Return what the newest attempt has noted of its code (`mlops.runs.identity.identity_facts`)."""
        address, summary = self.parameters.get("tracking_uri"), self.summary()
        return noted_code(tracking_address(address), summary.mlflow_run_id) if address and summary else {}


def _step(attempt: PipelineRunResponse, step: str) -> Any:
    for found in Client().list_run_steps(pipeline_run_id=attempt.id, name=step, size=1):
        return Client().get_run_step(found.id)
    return None

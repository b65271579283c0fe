"""What a run has stored that a replay uses again: its settings, tasks, and the attempts and rewards of its rounds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from zenml.io import fileio

from mlops.home.folder import Home
from mlops.ids import FITTING_TASKS, REWARDS, ROLLOUTS, TASKS, UNUSED, Stored, round_name
from mlops.runs.finding import UNFINISHED, attempts_of, find_run, is_alive, name_of
from mlops.runs.policies import stored_policy
from mlops.runs.results import refuse_others, settings_of_run
from mlops.runs.shared import SharedRun
from rlft.errors import DamagedError, RlftError


@dataclass(frozen=True, slots=True)
class StoredRound:
    """The artifacts of a round: its attempts, and their rewards."""

    rollouts: Any
    rewards: Any


@dataclass(frozen=True, slots=True)
class Source:
    """A run whose stored attempts are used again.

    `settings` is its config as a mapping, `tasks` the artifact of those that it used, and `rounds` has those of its
    rounds by their numbers, from 0 without a gap.
    """

    run: SharedRun
    name: str
    settings: Mapping[str, Any]
    tasks: Any
    rounds: Mapping[int, StoredRound]

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow; `None` if it has noted none."""
        noted = (each.run_metadata.get("mlflow_run_id") for each in (self.run.found, *attempts_of(self.run.found)))
        return next((str(each) for each in noted if each), None)


def find_source(home: Home, asked: str) -> Source:
    """Return a run by its id or name, with the attempts of all its rounds, whichever attempt at the run made them.

    Raises RlftError if there is no such run, if it goes on, or if it has stored no scored attempts, and DamagedError if
    files of theirs are gone.
    """
    run = find_run(asked)
    shared = SharedRun(home, run)
    name, of = name_of(run), (run.config.parameters or {}).get("source")
    way_on = f"name the run that it was made from, {quote(of)}" if of else "name a run that has trained (`rlft runs`)"
    refuse_others(shared, way_on)
    for attempt in attempts_of(run):
        if attempt.status in UNFINISHED and is_alive(home, attempt):
            raise RlftError(
                f"{name} goes on, and its rounds are not all there yet", where="RUN", fix="wait for its end"
            )
    rounds: dict[int, StoredRound] = {}
    while (found := _round(shared, len(rounds))) is not None:
        rounds[len(rounds)] = found
    tasks = shared.artifact(FITTING_TASKS, "") or shared.artifact(TASKS, "")
    settings = settings_of_run(shared)
    if not rounds or tasks is None or not settings:
        raise RlftError(
            f"{name} has stored no scored attempts of a round",
            where="RUN",
            fix=f"`rlft runs` says how it ended; `rlft resume {quote(name)}` goes on with one that was cut short",
        )
    _check_file(tasks, TASKS, name, TASKS.step)
    return Source(shared, name, settings, tasks, rounds)


def _round(run: SharedRun, number: int) -> StoredRound | None:
    found = []
    if run.artifact(UNUSED, round_name(number)) is not None:
        return None
    for stored in (ROLLOUTS, REWARDS):
        artifact = run.artifact(stored, round_name(number))
        if artifact is None:
            return None
        _check_file(artifact, stored, run.name, stored.step_id(round_name(number)))
        found.append(artifact)
    return StoredRound(*found)


def _check_file(artifact: Any, stored: Stored, name: str, step: str) -> None:
    """Raise DamagedError if the file of an artifact is gone; whether it has changed is seen when it is read."""
    file = os.path.join(artifact.uri, stored.file)
    if not fileio.exists(file):
        raise DamagedError("this file is gone", where=file).of(name, step)


def policy_before(home: Home, source: Source, number: int) -> Any:
    """Return the artifact of the policy with which a round began.

    Raises RlftError for a round that the run does not have, and WeightsRemovedError if `policy.keep` has removed the
    weights, which says of which rounds they are kept.
    """
    last = max(source.rounds)
    if number not in source.rounds:
        has = f"its rounds are 0 to {last}" if last else "its only round is 0"
        raise RlftError(
            f"{source.name} has no round {number}: {has}", where="--from-round", fix=f"give a number up to {last}"
        )
    name, round = ("start", None) if number == 0 else ("round", number)
    return stored_policy(home, source.name, name, round)

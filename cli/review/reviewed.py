"""The run whose attempts people review: its MLflow, its tasks and its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlops.home.folder import find_home
from rlft.errors import RlftError

if TYPE_CHECKING:
    from mlops.runs.results import Run
    from rlft.types import Task


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A run, where MLflow has it, how many rounds it has trained, and its tasks by their ids."""

    name: str
    address: str
    experiment_id: str
    run_id: str
    rounds: int
    tasks: Mapping[str, Task]
    run: Run


def open_run(run: str, stack: str | None) -> Reviewed:
    """Find a run by its id or name. Raises RlftError for one that is not there, or that MLflow does not know."""
    home = find_home()
    from mlops.stacks.stack import connect

    address = connect(home, stack)
    from mlflow import MlflowClient

    from mlops.runs import results as rollouts
    from mlops.tracking.answers import answering

    found = rollouts.open_run(home, run, stack)
    summary, tasks = found.summary(), rollouts.stored_tasks(found)
    if summary is None or summary.mlflow_run_id is None or tasks is None:
        raise RlftError(
            f"{found.name} has no run in MLflow, where people would read its attempts",
            where="RUN",
            fix="`rlft runs` lists the runs; one that is under way can be reviewed when it has ended",
        )
    with answering(address):
        known = MlflowClient(tracking_uri=address).get_run(summary.mlflow_run_id)
    ids = known.info.experiment_id, known.info.run_id
    return Reviewed(found.name, address, *ids, summary.rounds, tasks.by_id(), found)

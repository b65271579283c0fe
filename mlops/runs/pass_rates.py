"""How often earlier runs of the same experiment have solved each train task, from the rewards that they have stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from zenml.client import Client
from zenml.enums import ExecutionStatus

from mlops.home.folder import find_home
from mlops.ids import EXPERIMENT_TAG, PIPELINE, REWARDS, ROLLOUTS, round_name, round_of
from mlops.runs.finding import attempts_of, name_of, root_run
from mlops.runs.results import stored_tasks
from mlops.runs.shared import SharedRun
from rlft.curriculum.rates import EarlierRun, KeptRates, count_passes, keep_runs
from rlft.errors import DamagedError
from rlft.types import Task, TaskSet

logger = logging.getLogger(__name__)
_LOOKED_AT = 50  # the most runs of an experiment that are looked at
Rounds = dict[int, dict[str, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Sought:
    """What an earlier run must agree in: its experiment in MLflow, the code of environment and reward, and when a task
    is solved.

    `start` is the hash of the first policy's weights, in which it need not agree.
    """

    experiment: str
    environment: str
    reward: str
    weights: Mapping[str, float]
    full: float | None
    start: str


def kept_rates(run: Any, sought: Sought, tasks: TaskSet, count: int) -> KeptRates:
    """Return the pass rates of the newest `count` runs that agree in what is sought and had finished when this began.

    Runs of the same sweep do not count, so that its runs begin alike. A task of an earlier run counts if it is the same
    now, but for its split. What is damaged or was removed is left out, with a warning.
    """
    found = list(islice(_kept(run, sought, tasks), count)) if count else []
    if found:
        names = ", ".join(f"{earlier.name} ({earlier.rounds} rounds)" for earlier, _ in found)
        logger.info("the pass rates of earlier runs count: %s", names)
    return keep_runs(found)


def _kept(run: Any, sought: Sought, tasks: TaskSet) -> Iterator[tuple[EarlierRun, Rounds]]:
    now = {task.id: task for task in tasks.split("train")}
    for earlier in _finished_before(run, sought.experiment):
        try:
            if (kept := _read(earlier, sought, now)) is not None:
                yield kept
        except DamagedError as damage:
            logger.warning("the pass rates of an earlier run do not count: %s", damage)


def _finished_before(run: Any, experiment: str) -> Iterator[Any]:
    """Yield completed runs of an experiment that had ended when the first attempt at `run` began, newest first."""

    began, sweep, seen = root_run(run).created, _parent(run), {name_of(run)}
    filters = {
        "pipeline": PIPELINE,
        "status": ExecutionStatus.COMPLETED,
        "tags": f"equals:{EXPERIMENT_TAG}={experiment}",
    }
    for other in Client().list_pipeline_runs(**filters, sort_by="desc:created", size=_LOOKED_AT, hydrate=True):
        name = name_of(other)
        if name in seen or (sweep and _parent(other) == sweep) or other.end_time is None or other.end_time > began:
            continue
        seen.add(name)
        yield other


def _parent(run: Any) -> str:
    """Return the sweep that a run belongs to; empty if none."""
    return str(((run.config.parameters or {}).get("labels") or {}).get("parent") or "")


def _read(run: Any, sought: Sought, now: Mapping[str, Task]) -> tuple[EarlierRun, Rounds] | None:
    """Return the pass rates of a run by round; `None` if it does not agree, or has stored no round."""

    steps = _scoring_steps(run)
    if not steps or not all(_agrees(step, sought) for step in steps.values()):
        return None
    shared = SharedRun(find_home(), run)
    first = shared.output(ROLLOUTS, round_name(0))
    before = stored_tasks(shared)
    if first is None or before is None or any(row.environment != sought.environment for row in first):
        return None
    same = {task.id for task in before.tasks if _is_same(task, now.get(task.id))}
    rounds: Rounds = {}
    for number, step in sorted(steps.items()):
        counted = count_passes(step.outputs[REWARDS.output][0].load())
        rounds[number] = {task: counts for task, counts in counted.items() if task in same}
    began_alike = bool(first.rows) and first.rows[0].policy == sought.start
    return EarlierRun(name_of(run), len(rounds), began_alike), rounds


def _scoring_steps(run: Any) -> dict[int, Any]:
    """Return the steps that scored a round of training, by round, of all attempts at a run."""

    found: dict[int, Any] = {}

    for attempt in attempts_of(run):
        begins = f"startswith:{REWARDS.step_id('r')}"
        for step in Client().list_run_steps(pipeline_run_id=attempt.id, name=begins, size=10_000, hydrate=True):
            number = round_of(step.name)
            if number is not None and step.status.is_successful and step.outputs.get(REWARDS.output):
                found.setdefault(number, step)
    return found


def _agrees(step: Any, sought: Sought) -> bool:
    given = step.config.parameters
    reward = given.get("reward") or {}
    settings = reward if isinstance(reward, Mapping) else reward.model_dump()
    paid = settings.get("weights") == dict(sought.weights) and settings.get("full") == sought.full
    return paid and given.get("reward_fingerprint") == sought.reward


def _is_same(before: Task, now: Task | None) -> bool:
    return now is not None and (before.prompt, before.answer, before.info) == (now.prompt, now.answer, now.info)

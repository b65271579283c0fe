"""What a run asks of MLflow about its gate: what it can see, which look this is, who has trained on it, what moved."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlops.registry.gates import count_look, last_difference, note_difference
from mlops.registry.noted_tasks import last_noted, trained_on
from mlops.runs.starting import registry_name
from mlops.tracking.answers import answering
from mlops.tracking.reach import PATIENT_HTTP
from mlops.tracking.run import Tracker
from rlft.config import Config
from rlft.errors import TrackerError
from rlft.gates.identity import is_same_gate, sketch, sketch_of, task_hash
from rlft.gates.looks import Look
from rlft.power import gate_sentence, squared_difference
from rlft.promotion import few_groups
from rlft.statistics import effective_groups
from rlft.tasks.moves import describe_moves, find_moves
from rlft.types import EvaluationReport, Task, TaskSet

logger = logging.getLogger(__name__)


def say_what_it_sees(gate: Sequence[Task], config: Config, tracker: Tracker) -> str | None:
    """Return, and log, the smallest gain that a gate is likely to find; `None` if it is too small to promote anything.

    What is assumed of the models is what the last decision on it has shown, if the tracker knows.
    """
    sizes = np.array(list(Counter(task.group for task in gate).values()), dtype=np.float64)
    effective = float(effective_groups(sizes)) if len(sizes) else 0.0
    if few := few_groups("gate", len(sizes), effective):
        logger.warning("nothing can be promoted in this run: %s", few)
        return None
    metric, measured = config.evaluation.metric, None
    if not tracker.is_away:
        try:
            with answering(tracker.tracking_uri):
                measured = last_difference(tracker.tracking_uri, registry_name(config), gate, metric)
        except TrackerError as cause:
            logger.warning("what earlier decisions on this gate have shown is not known: %s", cause.what)
    text = gate_sentence(
        len(gate), len(sizes), effective, metric=metric, looks=config.promotion.looks, measured=measured
    )
    logger.info("%s", text)
    return text


def say_what_moved(tasks: TaskSet, config: Config, tracker: Tracker) -> dict[str, Any] | None:
    """Return, and warn of, the tasks that are in another split than in the last run of this name; `None` without any.

    It is {"run": its name, "tasks": {id: [split before, split now]}, "same_gate": whether looks at both gates add up}.
    """
    if tracker.is_away or tracker.run_id is None or tracker.experiment_id is None:
        return None
    try:
        with answering(tracker.tracking_uri):
            last = last_noted(tracker.tracking_uri, tracker.experiment_id, config.name, without=tracker.run_id)
    except TrackerError as cause:
        logger.warning("whether tasks have changed their split since the last run is not known: %s", cause.what)
        return None
    if last is None or not (moves := find_moves(last.hashes, tasks)):
        return None
    same = is_same_gate(sketch(tasks.split("gate")), sketch_of(last.hashes.get("gate", [])))
    logger.warning(
        "%d tasks are in another split than in the run %s: %s; task_notes.json names them. The gate is %s",
        len(moves),
        last.run,
        describe_moves(moves),
        "mostly the same, so its looks go on" if same else "a new one, whose looks begin anew",
    )
    return {"run": last.run, "tasks": {m.task_id: [m.before, m.now] for m in moves}, "same_gate": same}


def ask_about(
    gate: Sequence[Task],
    trained: EvaluationReport,
    start: EvaluationReport,
    config: Config,
    champion_run: str | None,
    address: str,
) -> tuple[Look, list[str] | None]:
    """Count a look at the gate, and return it with the ids of its tasks that the champion was trained on.

    `trained` and `start` are reports on the gate of the policies after and before training; how far they are apart is
    noted for later runs. The ids are none without a champion, and `None` if its run has not noted its tasks. Raises
    TrackerError if MLflow does not take or give it.
    """
    name, metric, promotion = registry_name(config), config.evaluation.metric, config.promotion
    with answering(address, PATIENT_HTTP):
        look = count_look(address, name, _hash_of_question(trained.policy, config), gate, promotion.looks)
        if (squared := squared_difference(trained, start, metric)) is not None:
            note_difference(address, name, gate, metric, squared)
        known = trained_on(address, champion_run) if champion_run else frozenset[str]()
    return look, None if known is None else [task.id for task in gate if task_hash(task) in known]


def _hash_of_question(policy: str, config: Config) -> str:
    """Return a hash of what a gate is asked: the same policy judged by other settings is another look."""
    judged = config.evaluation.model_dump(exclude={"validate_every", "patience", "pass_at_k"})
    asked = [policy, judged, config.promotion.min_improvement, config.promotion.looks]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

"""How often a model's gate was looked at, and in which splits a run had its tasks, for later runs to count with.

Looks are tags of the registered model, below `mlflow.rlft.`: `gate.<gate>` holds the sketch of a gate's tasks,
`look.<gate>.<asked>` the look at which a policy was judged as `<number>/<promotion.looks>/<spent>`. A tag for each look
cannot be lost to another run that writes at once. The tasks of a run are hashes by split, an artifact of its MLflow
run.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from mlops.registry.client import RegistryClient, unless_absent
from mlops.registry.names import GATE_TAG, LOOK_TAG
from rlft.evaluation.gates import Look, gate_id, is_same_gate, next_look, shared, sketch, task_hash
from rlft.types import SPLITS, Split, Task, TaskSet

_NUMBERED = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)/([0-9.e+-]+)")  # a look that was numbered: number, looks, spent
_retried = retry(
    # Two that set a tag at once may both try to insert it, which a database refuses to the second.
    retry=retry_if_exception_type(MlflowException),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(0.1, 2),
    reraise=True,
)


def count_look(tracking_uri: str, name: str, asked: str, gate: Sequence[Task], looks: int) -> Look:
    """Note that a gate is asked about a policy, by one of `looks` decisions, and return which look it is.

    `asked` is a hash of the policy and of how it is judged. It counts once, so that a run that is resumed or repeated
    decides as before.

    All looks at this gate count, and those at others as `_same` says. The look is noted before it is counted: of runs
    that look at once each counts the other, so that none is missed. One that is refused beforehand, for want of what is
    left, is not noted and spends nothing: nothing is asked of the gate then. Raises what MLflow raises.
    """
    client = RegistryClient(tracking_uri)
    this, tasks = gate_id(gate), sketch(gate)
    own = look_tag(asked, gate)
    tags = client.get_registered_model(name).tags
    if known := noted_look(tags, own):
        return known
    if own not in tags and not (following := next_look(_looks(tags, this, tasks), looks)).is_allowed:
        return following
    note = _retried(client.set_registered_model_tag)
    note(name, GATE_TAG + this, tasks)
    note(name, own, f"/{looks}/")
    look = _looks(client.get_registered_model(name).tags, this, tasks)
    note(name, own, f"{look.number}/{looks}/{look.spent!r}")
    return look


def look_tag(asked: str, gate: Sequence[Task]) -> str:
    """Return the tag of the registered model that holds the look at which a gate was asked about a policy."""
    return f"{LOOK_TAG}{gate_id(gate)}.{asked[:32]}"


def noted_look(tags: Mapping[str, str], tag: str) -> Look | None:
    """Return the look that a tag of a registered model holds; `None` if there is none, or it was never numbered."""
    known = _NUMBERED.fullmatch(tags.get(tag, ""))
    return Look(int(known[1]), float(known[3])) if known else None


def past_looks(tracking_uri: str, name: str, gate: Sequence[Task]) -> Look:
    """Return the last of the looks that count at a gate, with what they have spent; its number is 0 without any.

    Raises what MLflow raises; a model that is not registered yet has none.
    """
    model = unless_absent(lambda: RegistryClient(tracking_uri).get_registered_model(name))
    return _looks(model.tags if model else {}, gate_id(gate), sketch(gate))


def _looks(tags: Mapping[str, str], this: str, tasks: str) -> Look:
    """Return the last of the looks that count at the gate with this id and sketch; number 0 without any."""
    noted = [(key.removeprefix(LOOK_TAG), kept) for key, kept in tags.items() if key.startswith(LOOK_TAG)]
    gates = {key.removeprefix(GATE_TAG): kept for key, kept in tags.items() if key.startswith(GATE_TAG)}
    same = {this, *_same(gates, this, tasks)}
    spent = [1 / int(kept.split("/")[1]) for key, kept in noted if key.split(".")[0] in same]
    return Look(len(spent), sum(spent))


def _same(looked_at: Mapping[str, str], this: str, tasks: str) -> set[str]:
    """Return those of the gates that were looked at, {id: sketch}, whose looks count at this one.

    They are those of which each holds more than half of its tasks. If the others together hold more than half, too,
    they are also all that hold any: a gate made of halves of two that are spent is spent.
    """
    others = {gate: kept for gate, kept in looked_at.items() if gate != this}
    alone = {gate for gate, kept in others.items() if is_same_gate(tasks, kept)}
    rest = {gate: kept for gate, kept in others.items() if gate not in alone and shared(tasks, kept) > 0}
    return alone | (set(rest) if is_same_gate(tasks, *rest.values()) else set[str]())


HASHES = "task_questions.json"
_NOTED = TypeAdapter(dict[Split, list[str]])


def noted_tasks(task_set: TaskSet) -> dict[Split, list[str]]:
    """Return what a run notes of its tasks as the artifact `HASHES`: their hashes by split."""
    return {split: [task_hash(task) for task in task_set.split(split)] for split in SPLITS}


def trained_on(tracking_uri: str, run_id: str) -> frozenset[str] | None:
    """Return the hashes of the tasks that a run trained on; `None` if it has not noted them, or is gone.

    Raises as MLflow does.
    """
    noted = unless_absent(lambda: _read(MlflowClient(tracking_uri=tracking_uri), run_id))
    return None if noted is None else frozenset(noted["train"])


def _read(client: MlflowClient, run_id: str) -> dict[Split, list[str]] | None:
    """Return what a run has noted; `None` if it has noted nothing."""
    if all(file.path != HASHES for file in client.list_artifacts(run_id)):
        return None
    with tempfile.TemporaryDirectory() as folder:
        return _NOTED.validate_json(Path(client.download_artifacts(run_id, HASHES, folder)).read_bytes())

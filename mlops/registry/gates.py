"""How often a model's gate was looked at, as tags of the registered model, and the tasks that a version was trained on.

`rlft.gate.<gate>` holds the sketch of a gate's tasks, `rlft.look.<gate>.<asked>` the number of the look at which a
policy was judged. A tag for each look cannot be lost to another run that writes at the same time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlops.registry.names import ABSENT
from mlops.registry.retries import retried
from rlft.gates import gate_id, is_same_gate, sketch, task_hash
from rlft.types import SPLITS, Task, TaskSet

GATE_TAG, LOOK_TAG = "rlft.gate.", "rlft.look."
HASHES = "task_hashes.json"


def count_look(tracking_uri: str, name: str, asked: str, gate: Sequence[Task], registry_uri: str | None = None) -> int:
    """Note that a gate is asked about a policy, and return the number of the look, from 1.

    `asked` is a hash of the policy and of how it is judged. It counts once, so that a run that is resumed or repeated
    decides as before.

    All looks count at gates of which this one shares more than half its tasks. The look is noted before it is counted:
    of runs that look at once each counts the other, so that none is missed. Raises what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    this, tasks = gate_id(gate), sketch(gate)
    own = f"{LOOK_TAG}{this}.{asked[:32]}"
    if noted := client.get_registered_model(name).tags.get(own):
        return int(noted)
    note = retried(client.set_registered_model_tag)
    note(name, GATE_TAG + this, tasks)
    note(name, own, "")
    number = _looks(client.get_registered_model(name).tags, tasks)
    note(name, own, str(number))
    return number


def _looks(tags: Mapping[str, str], tasks: str) -> int:
    gates = {key.removeprefix(GATE_TAG): kept for key, kept in tags.items() if key.startswith(GATE_TAG)}
    same = {gate for gate, kept in gates.items() if is_same_gate(tasks, kept)}
    return sum(key.removeprefix(LOOK_TAG).split(".")[0] in same for key in tags if key.startswith(LOOK_TAG))


def hashes_by_split(task_set: TaskSet) -> dict[str, list[str]]:
    """Return {split: hashes of its tasks}, which `trained_on` reads from a run's artifact `HASHES`."""
    return {split: [task_hash(task) for task in task_set.split(split)] for split in SPLITS}


def trained_on(tracking_uri: str, run_id: str) -> frozenset[str] | None:
    """Return the hashes of the tasks that a run trained on; `None` if it has not noted them, or is gone.

    Raises as MLflow does.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    try:
        noted = any(file.path == HASHES for file in client.list_artifacts(run_id))
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    if not noted:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(client.download_artifacts(run_id, HASHES, folder))
        return frozenset(json.loads(file.read_text(encoding="utf-8"))["train"])

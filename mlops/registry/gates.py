"""How often a model's gate was looked at, as tags of the registered model.

`rlft.gate.<gate>` holds the sketch of a gate's tasks, `rlft.look.<gate>.<asked>` the look at which a policy was judged
as `<number>/<promotion.looks>/<spent>`. A tag for each look cannot be lost to another run that writes at the same time.
`rlft.differs.<gate>.<metric>` is how far the policies of the last decision were apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow import MlflowClient

from mlops.registry.retries import retried
from rlft.gates.identity import gate_id, is_same_gate, sketch
from rlft.gates.looks import Look
from rlft.types import Task

GATE_TAG, LOOK_TAG, DIFFERS_TAG = "rlft.gate.", "rlft.look.", "rlft.differs."


def count_look(
    tracking_uri: str, name: str, asked: str, gate: Sequence[Task], looks: int, registry_uri: str | None = None
) -> Look:
    """Note that a gate is asked about a policy, by one of `looks` decisions, and return which look it is.

    `asked` is a hash of the policy and of how it is judged. It counts once, so that a run that is resumed or repeated
    decides as before.

    All looks count at gates of which this one shares more than half its tasks. The look is noted before it is counted:
    of runs that look at once each counts the other, so that none is missed. Raises what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    this, tasks = gate_id(gate), sketch(gate)
    own = f"{LOOK_TAG}{this}.{asked[:32]}"
    number, _, rest = client.get_registered_model(name).tags.get(own, "").partition("/")
    if number:
        return Look(int(number), float(rest.partition("/")[2]))
    note = retried(client.set_registered_model_tag)
    note(name, GATE_TAG + this, tasks)
    note(name, own, f"/{looks}/")
    found = _looks(client.get_registered_model(name).tags, tasks)
    look = Look(len(found), sum(1 / each for each in found))
    note(name, own, f"{look.number}/{looks}/{look.spent!r}")
    return look


def _looks(tags: Mapping[str, str], tasks: str) -> list[int]:
    """Return, for each look at a gate that is the same, of how many looks it was one."""
    same = _same(tags, tasks)
    noted = {key.removeprefix(LOOK_TAG): kept for key, kept in tags.items() if key.startswith(LOOK_TAG)}
    return [int(kept.split("/")[1]) for key, kept in noted.items() if key.split(".")[0] in same]


def _same(tags: Mapping[str, str], tasks: str) -> set[str]:
    """Return the ids of the gates that are the same as one with this sketch."""
    gates = {key.removeprefix(GATE_TAG): kept for key, kept in tags.items() if key.startswith(GATE_TAG)}
    return {gate for gate, kept in gates.items() if is_same_gate(tasks, kept)}


def note_difference(tracking_uri: str, name: str, gate: Sequence[Task], metric: str, squared: float) -> None:
    """Note the mean squared difference of a decision on a gate (`rlft.power.squared_difference`), for the next run."""
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
    retried(client.set_registered_model_tag)(name, f"{DIFFERS_TAG}{gate_id(gate)}.{metric}", repr(squared))


def last_difference(tracking_uri: str, name: str, gate: Sequence[Task], metric: str) -> float | None:
    """Return what `note_difference` noted last; of several gates that are the same the largest; `None` without any.

    Raises what MLflow raises.
    """
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
    tags, this = client.get_registered_model(name).tags, gate_id(gate)
    noted = {gate: tags.get(f"{DIFFERS_TAG}{gate}.{metric}") for gate in {this, *_same(tags, sketch(gate))}}
    found = {gate: float(kept) for gate, kept in noted.items() if kept is not None}
    return found.get(this, max(found.values(), default=None))

"""Databases and settings of a home that are damaged or gone, under a run that was killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mlops.home.databases import ZENML
from tests.benchmarks.faults.artifacts import cut, empty, flip
from tests.benchmarks.faults.scene import Fault, Scene, Seen

FILES = {"zenml.db": ZENML.path, "mlflow.db": "mlflow.db", "config.yaml": "zenml/config.yaml"}


def zero(file: Path) -> None:
    """Overwrite the first pages of a database with zeros, as a lost write does."""
    data = file.read_bytes()
    file.write_bytes(bytes(min(8192, len(data))) + data[8192:])


def _damaged(scene: Scene, name: str, harm: Callable[[Path], None]) -> Seen:
    home, run_id = scene.half_copy()
    harm(home.folder / ".rlft" / FILES[name])
    results = scene.follow(home, home.rlft("resume", run_id))
    if name != "zenml.db" and results[-1].summary is None:  # the database is restored, and knows the run
        results.append(home.rlft("resume", run_id))
    return Seen(home, results, policies=name != "zenml.db")


def faults() -> list[Fault]:
    """Return each harm to each of the three files."""
    harms = {"cut": cut, "zeroed": zero, "flipped": flip, "deleted": Path.unlink, "empty": empty}
    return [
        Fault("databases", f"{name} {how}", partial(_damaged, name=name, harm=harm))
        for name in FILES
        for how, harm in harms.items()
        if not (name == "config.yaml" and how == "zeroed")
    ]

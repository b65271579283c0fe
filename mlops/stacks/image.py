"""Finds files that a run needs and that the image of a stack will not hold."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from mlops.home.folder import PINS, PROJECT
from rlft.config import Config
from rlft.errors import StackError
from rlft.files import named_files


def check_image(config: Config) -> None:
    """Raise StackError, which names every file of this machine that the active stack's image will not hold.

    ZenML copies the folder that rlft lies in into the image, and the run begins there. So a path that is not on this
    machine may well be one of a volume that the stack mounts, and is not refused. A stack whose orchestrator is ZenML's
    local one builds no image.
    """
    from zenml.client import Client

    if Client().active_stack.orchestrator.flavor == "local":
        return
    if not PINS.is_file():
        raise StackError(
            "the image is made of rlft's clone, and this rlft was installed without one",
            where="--stack",
            fix="clone rlft, run `make setup` there, and use that rlft (docs/guide/kubernetes.md)",
        )
    lacking = [f"{setting}: {named}" for setting, named in files_of(config) if not is_held(named)]
    if lacking:
        raise StackError(
            "the stack runs in an image that holds the folder of rlft, and not these files:\n  " + "\n  ".join(lacking),
            where="--stack",
            fix=f"copy them into {PROJECT}, name them by paths that begin there, and run the command there "
            "(docs/guide/kubernetes.md)",
        )


def files_of(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file or folder of this machine, with the path as it is named."""
    tasks, environment = config.tasks, config.environment
    named = {
        "environment.name": _code(environment.name),
        "training.loss_type": _code(config.training.loss_type),
        "tasks.path": tasks.path,
        "tasks.off_distribution.path": tasks.off_distribution and tasks.off_distribution.path,
        "warm_start.path": config.warm_start and config.warm_start.path,
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    yield from ((setting, Path(name)) for setting, name in named.items() if name and Path(name).exists())
    yield from (("environment.kwargs", file) for file in named_files(environment.kwargs))


def is_held(named: Path) -> bool:
    """Return whether a path leads to the same file where the run begins, which is the image's copy of rlft's folder.

    An absolute path does not: in the image that folder has another place.
    """
    if not named.is_absolute():
        there = PROJECT / named
        return there.resolve().is_relative_to(PROJECT) and there.exists() and there.samefile(named)
    return False


def _code(name: str) -> str | None:
    """Return the file that `path/to/file.py:Name` or `package.module:Name` is read from; `None` for what rlft ships."""
    location, _, attribute = name.rpartition(":")
    if not attribute or not location:
        return None
    if location.endswith(".py"):
        return location
    top = location.partition(".")[0]
    spec = None if top == "rlft" else importlib.util.find_spec(top)
    places = [] if spec is None else list(spec.submodule_search_locations or [spec.origin])
    held = [place for place in places if place and Path(place).resolve().is_relative_to(PROJECT)]
    return None if held or not places else str(places[0])

"""The image of a stack: how it is made, and which files a run needs that it will not hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlops.clone import PINS, PROJECT
from rlft.config import Config
from rlft.config.code import code_of
from rlft.errors import StackError
from rlft.files import is_installed, named_files

if TYPE_CHECKING:
    from zenml.config import DockerSettings


def image_settings() -> dict[str, DockerSettings]:
    """Return the settings of a pipeline by which the active stack makes its image, if it makes one.

    Where it makes none ZenML would look at each step for who called it, to say that they have no use: that took more
    than a third of a short run.
    """
    from zenml.client import Client
    from zenml.config import DockerSettings
    from zenml.config.docker_settings import PythonPackageInstaller

    stack = Client().active_stack
    if stack.orchestrator.flavor == "local" and stack.step_operator is None:
        return {}
    # ZenML copies the clone into the image. reasoning-gym requires pycosat, which has no wheel: it is compiled.
    image = DockerSettings(
        requirements=str(PINS),
        apt_packages=["gcc", "libc6-dev"],
        python_package_installer=PythonPackageInstaller.UV,
    )
    return {"docker": image}


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
    """Yield each setting that names a file or folder of this machine, with the path as it is named.

    A module in the clone of rlft is left out: it is found by its name in the image, too.
    """
    for code in code_of(config):
        if code.file is not None and code.file.exists() and not (code.is_module and _lies_in_clone(code.file)):
            yield code.setting, code.file
    named = {
        **{f"{section}.path": source.path for section, source in config.tasks.sources().items()},
        "warm_start.path": config.warm_start and config.warm_start.path,
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    yield from ((setting, Path(name)) for setting, name in named.items() if name and Path(name).exists())
    yield from (("environment.kwargs", file) for file in named_files(config.environment.kwargs))


def is_held(named: Path) -> bool:
    """Return whether a path leads to the same file where the run begins, which is the image's copy of rlft's folder.

    An absolute path does not: in the image that folder has another place.
    """
    if not named.is_absolute():
        there = PROJECT / named
        return there.resolve().is_relative_to(PROJECT) and there.exists() and there.samefile(named)
    return False


def _lies_in_clone(file: Path) -> bool:
    return file.resolve().is_relative_to(PROJECT) and not is_installed(file)  # `.venv` may lie there, too

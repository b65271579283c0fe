"""Runs of the real command line in processes of their own, each in a home under a temporary folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "fixtures" / "configs" / "tiny.yaml"


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
        return inherited

    def python(self, *arguments: str, timeout: float = 200) -> subprocess.CompletedProcess[str]:
        """Run Python in this home."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def rlft(self, *arguments: str, kill_at: str = "-") -> Result:
        """Run a command, or run it and die at the n-th call of a function (`module:function:n`)."""
        target = self.folder / "summary.json"
        target.unlink(missing_ok=True)
        asks = ["--summary", str(target)] if arguments[0] in ("run", "resume") else []
        done = self.python("-m", "tests.e2e.driver", kill_at, *arguments, *asks)
        summary = json.loads(target.read_text()) if target.is_file() else None
        return Result(done.returncode, done.stdout + done.stderr, summary)

    def query(self, code: str) -> Any:
        """Evaluate code that prints JSON as its last line, with ZenML and MLflow of this home at hand."""
        prelude = (
            "import json\n"
            "from pipelines.home import find_home, quieten\n"
            "from pipelines.stack import connect\n"
            "quieten(False)\n"
            "uri = connect(find_home(), None)\n"
            "from zenml.client import Client\n"
            "from mlflow import MlflowClient\n"
            "client, mlflow_client = Client(), MlflowClient(uri)\n"
        )
        done = self.python("-c", prelude + code)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

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


@pytest.fixture(scope="session")
def make_home(tmp_path_factory: pytest.TempPathFactory):
    """Makes homes that last for the session."""
    return lambda name: Home(tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session")
def finished(make_home) -> tuple[Home, Result]:
    """A whole tiny run that was left alone."""
    home = make_home("finished")
    result = home.rlft("run", str(TINY))
    assert result.code == 0, result.output
    return home, result

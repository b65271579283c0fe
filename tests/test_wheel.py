"""The wheel: its `rlft` command works where there is no clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
TINY = ROOT / "tests" / "fixtures" / "configs" / "tiny.yaml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the wheel is installed into, without what it depends on, which is installed here already."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.prefix) / "bin" / "uv"
    build = [uv, "build", "--quiet", "--offline", "--wheel", "--no-build-isolation", "--out-dir", folder, ROOT]
    subprocess.run(build, check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", sys.executable, "--target", site]
    subprocess.run([*install, wheel], check=True, timeout=120)
    return site


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the wheel's own `rlft` in a folder. PYTHONPATH comes before the clone, which is installed, too."""
    environment = os.environ | {"PYTHONPATH": str(installed), "COLUMNS": "200"}
    command = [sys.executable, installed / "bin" / "rlft", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_its_command_makes_an_environment_and_checks_it(installed, tmp_path):
    made = run(installed, tmp_path, "environments", "new", "cups")
    assert made.returncode == 0, made.stderr
    checked = run(installed, tmp_path, "environments", "check", "cups.py:Cups", "--tasks", "cups.jsonl", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout)["problems"] == []


def test_its_doctor_looks_for_no_clone(installed, tmp_path):
    looked = run(installed, tmp_path, "doctor")
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "without its clone" in looked.stdout


def test_its_command_runs_a_pipeline_from_its_own_files(installed, tmp_path):
    short = ("--set", "training.rounds=1", "--set", "controls=[]")
    done = run(installed, tmp_path, "run", str(TINY), *short, "--summary", "summary.json")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["rounds"]) in (("improved", 1), ("not_improved", 1))

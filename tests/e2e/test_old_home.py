"""A home that the release before has made, read by today's code.

The home is too large for the repository (0.7 MB packed), so it is made anew by the code of that release, which is taken
from the history of the clone. Its tree has the same pinned packages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TINY, Home
from tests.needs import need

BEFORE = "00bc94e31dd2455f58d26f2318093fdf167e7494"  # the release before formats had versions
# The first test waits for the home, which on a busy machine takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Home:
    """A home with a finished run `done` and one that was killed in its second round, `cut`, both of an older rlft."""
    there = subprocess.run(
        ["git", "cat-file", "-e", f"{BEFORE}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    need(there.returncode == 0, "the history of the repository", "git fetch --unshallow, in a clone")
    tree, place = tmp_path_factory.mktemp("release"), tmp_path_factory.mktemp("old")
    packed = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed, check=True)
    home = Home(place)
    assert _run(home, tree, "-", "--name", "done").returncode == 0
    killed = _run(home, tree, "steps.train_grpo:train_round:2", "--set", "seed=1", "--name", "cut")
    assert killed.returncode == -9, killed.stderr
    return home


@pytest.fixture
def copy(old, tmp_path) -> Home:
    """A copy of it, to be changed."""
    return old.copy(tmp_path)


def _run(home: Home, tree: Path, kill_at: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tiny experiment with the code in a tree."""
    words = ["-m", "tests.e2e.driver", kill_at, "run", str(tree / "tests/fixtures/configs/tiny.yaml"), *more]
    environment = {**home.environment(), "PYTHONPATH": str(tree)}
    python, place = [sys.executable, *words], home.folder
    return subprocess.run(python, cwd=place, env=environment, capture_output=True, text=True, timeout=600, check=False)


def _summaries(home: Home) -> list[Path]:
    return [file for file in (home.folder / ".rlft/runs").glob("*.json") if file.name.count(".") == 1]


def _json(home: Home, *words: str):
    done = home.rlft(*words, "--json")
    assert done.code == 0, done.output
    return json.loads(done.output[re.search(r"^[\[{]", done.output, re.MULTILINE).start() :])


def test_it_has_no_forms(old):
    """Otherwise the tests below would say nothing: 0 is the version of what says none."""
    stored = [json.loads(file.read_text()) for file in _summaries(old)]
    assert len(stored) == 2
    assert all("format" not in summary for summary in stored)
    assert all("format" not in file.read_text() for file in (old.folder / ".rlft/zenml").rglob("policy.json"))


def test_its_runs_are_listed(copy):
    runs = {run["name"]: run for run in _json(copy, "runs")}
    assert runs["cut"]["status"] == "killed"
    assert runs["done"]["status"] in ("improved", "not_improved")
    assert runs["done"]["version"] == {"name": "tiny", "version": "1"}
    assert runs["done"]["difference"]["metric"] == "accuracy"


def test_its_rollouts_are_shown(copy):
    # The config has 8 tasks in a round, with 4 attempts each.
    rows = _json(copy, "show", "done", "2")
    assert len(rows) == 32
    assert {row["split"] for row in rows} == {"train"}
    assert _json(copy, "show", "done", "2", "0")["reward"]["parts"]


def test_its_runs_are_explained(copy):
    assert _json(copy, "diagnose", "done")["rounds"] == 3
    page = copy.folder / "page.html"
    assert copy.rlft("report", "done", "--to", str(page)).code == 0
    assert "validation" in page.read_text()
    assert copy.rlft("history", "tiny").code == 0
    whole = copy.rlft("doctor", "--verify")
    assert "0 files are damaged" in whole.output, whole.output


def test_its_run_is_compared_with_one_of_today(copy):
    new = copy.rlft("run", str(TINY), "--name", "today", "--set", "seed=2")
    assert new.code == 0, new.output
    assert new.summary is not None
    assert new.summary["promotion"]["version"] == "2"
    compared = _json(copy, "compare", "done", "today")
    assert "seed" in json.dumps(compared)


def test_its_versions_are_evaluated(copy):
    done = copy.rlft("evaluate", "done:best", "models:/tiny@challenger", "--suite", str(TINY))
    assert done.code == 0, done.output
    assert copy.rlft("export", "tiny@challenger", "--to", str(copy.folder / "exported")).code == 0


def test_its_killed_run_is_refused_before_anything_changes(copy):
    """Other code of rlft's own environments would be mixed with that of the rounds before."""
    before = _json(copy, "show", "cut", "0")
    done = copy.rlft("resume", "cut")
    assert done.code == 2
    assert "the code of the environment" in " ".join(done.output.split())
    assert "begin a new run" in " ".join(done.output.split())
    assert _json(copy, "show", "cut", "0") == before
    attempts = [run["attempts"] for run in _json(copy, "runs") if run["name"] == "cut"]
    assert [len(each) for each in attempts] == [1]


@pytest.mark.parametrize("command", [("show", "done", "2"), ("report", "done"), ("diagnose", "done")])
def test_a_home_of_a_newer_rlft_is_refused(copy, command):
    for report in (copy.folder / ".rlft/zenml/local_stores").rglob("report.json"):
        report.write_text(json.dumps({**json.loads(report.read_text()), "format": 9}))
    for seal in (copy.folder / ".rlft/zenml/local_stores").glob("*/seals/*.json"):
        seal.write_text(json.dumps({**json.loads(seal.read_text()), "format": 9}))
    done = copy.rlft(*command)
    assert done.code == 2, done.output
    assert "made by a newer rlft" in " ".join(done.output.split())


def test_a_summary_of_a_newer_rlft_is_left_alone(copy):
    files = _summaries(copy)
    for file in files:
        file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}))
    kept = {file: file.read_text() for file in files}
    listed = copy.rlft("runs")
    assert listed.code == 0
    assert "made by a newer rlft: the summary of a run" in " ".join(listed.output.split())
    refused = copy.rlft("resume", "cut")
    assert refused.code == 2
    assert "made by a newer rlft" in " ".join(refused.output.split())
    assert {file: file.read_text() for file in files} == kept

"""What a machine lacks is skipped with one closing line, and fails in CI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import closing_line, need, need_bubblewrap

ROOT = Path(__file__).resolve().parents[1]
REASONS = ("Skipped: needs vLLM (make setup-vllm)", "Skipped: needs bubblewrap (apt-get install bubblewrap)")


def test_the_closing_line_says_how_many_and_the_way_out():
    assert closing_line([REASONS[1], REASONS[0], "Skipped: no GPU", REASONS[1]]) == (
        "3 tests were skipped: 2 for want of bubblewrap (apt-get install bubblewrap), "
        "1 for want of vLLM (make setup-vllm)"
    )


def test_nothing_lacks_and_nothing_is_said():
    assert closing_line(["Skipped: no GPU"]) == ""


def test_what_is_missing_is_skipped_on_a_users_machine_and_fails_in_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"needs a moon \(look up\)"):
        need(False, "a moon", "look up")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"needs a moon \(look up\)"):
        need(False, "a moon", "look up")
    need(True, "a moon", "look up")


def test_a_machine_without_bwrap_lacks_bubblewrap(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(pytest.skip.Exception, match="needs bubblewrap"):
        need_bubblewrap()


TESTS = """
import pytest
from tests.needs import need

@pytest.fixture
def moon():
    need(False, "a moon", "look up")

def test_one(moon): pass
def test_two(): need(False, "a moon", "look up")
def test_three(): pass
"""


@pytest.fixture
def run_tests(tmp_path):
    """Run pytest on `TESTS` with options; gives its exit code and lines."""
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_terminal_summary as pytest_terminal_summary"
    )
    (tmp_path / "test_moon.py").write_text(TESTS)

    def run(*options: str) -> tuple[int, list[str]]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"CI": "", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout.splitlines()

    return run


@pytest.mark.slow
def test_the_closing_line_is_there_under_xdist(run_tests):
    code, lines = run_tests("-n", "2")
    assert code == 0
    assert "2 tests were skipped: 2 for want of a moon (look up)" in lines


@pytest.mark.slow
def test_a_second_part_runs_what_the_first_skipped_and_nothing_is_left_out(run_tests, tmp_path):
    parts = ("-p", "tests.parts", "--done=done.json")
    assert run_tests("-n", "2", *parts)[0] == 0
    assert json.loads((tmp_path / "done.json").read_text()) == {
        "passed": ["test_moon.py::test_three"],
        "skipped": {f"test_moon.py::test_{name}": "needs a moon (look up)" for name in ("one", "two")},
    }
    (tmp_path / "test_moon.py").write_text(TESTS + "def test_four(): pass\n")
    code, lines = run_tests(*parts, "--collect-only")
    assert code == 4
    assert any("1 of 4 tests ran in no part: test_moon.py::test_four" in line for line in lines)
    (tmp_path / "test_moon.py").write_text(TESTS.replace("need(False", "need(True") + "def test_four(): pass\n")
    code, lines = run_tests(*parts)
    assert code == 0
    assert any("3 passed" in line for line in lines)
    code, lines = run_tests(*parts, "--collect-only")
    assert code == 5  # pytest's own: nothing is left to collect
    assert any("all 4 tests passed in one of the parts" in line for line in lines)


@pytest.mark.slow
def test_a_file_that_lies_elsewhere_is_not_taken_for_a_place_of_tests(run_tests, tmp_path_factory):
    file = tmp_path_factory.mktemp("elsewhere") / "done.json"
    assert run_tests("-p", "tests.parts", f"--done={file}")[0] == 0
    code, lines = run_tests("-p", "tests.parts", f"--done={file}")  # the file is there now
    assert (code, any("2 skipped, 1 deselected in" in line for line in lines)) == (
        0,
        True,
    )  # what had passed is not run again
    assert run_tests("-p", "tests.parts", "--done", str(file))[0] == 4

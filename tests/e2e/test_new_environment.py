"""A new environment works as it is written: its test, its check, its audit and its run, each in its own process."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cups(make_home):
    """A folder with a new environment."""
    home = make_home("new")
    made = home.rlft("environments", "new", "cups")
    assert made.code == 0, made.output
    for command in ("environments check cups.py:Cups --tasks cups.jsonl", "audit cups.yaml", "run cups.yaml"):
        assert f"rlft {command}" in made.output
    assert "pytest test_cups.py" in made.output
    return home


def test_its_own_test_passes(cups):
    done = cups.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cups.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_its_check_finds_nothing(cups):
    shown = cups.rlft("environments", "check", "cups.py:Cups", "--tasks", "cups.jsonl")
    assert shown.code == 0, shown.output
    assert 'price(article="A1")' in shown.output
    assert "problems: none" in shown.output
    report = json.loads(
        cups.python("-m", "tests.e2e.driver", "-", "environments", "check", "cups.py:Cups", "--tasks", "cups.jsonl",
                    "--json").stdout
    )  # fmt: skip
    assert (report["gold"], report["silence"], report["repeats"], report["problems"]) == (True, True, True, [])
    assert report["rollout"]["total"] == 1.0


def test_its_audit_passes(cups):
    result = cups.rlft("audit", "cups.yaml")
    assert result.code == 0, result.output
    assert "- " not in result.output  # a finding


def test_it_runs_and_its_tool_is_called(cups):
    result = cups.rlft("run", "cups.yaml")
    assert result.code == 0, result.output
    assert result.summary["status"] in ("improved", "not_improved")
    assert result.summary["baseline"]["rewards/looked_up"] > 0.5
    assert result.summary["ledger"]["errored"] == 0


def test_it_is_not_written_twice(cups):
    again = cups.rlft("environments", "new", "cups")
    assert again.code == 2
    assert "there already: cups.py, test_cups.py, cups.jsonl, cups.yaml" in again.output

"""cli.promote: what it says, and what it ends with."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from cli import app as cli
from cli.promote import _exit_code, _finish, _tell
from mlops.summary.file import keep_summary
from mlops.summary.summary import Promotion, Summary
from pipelines.promotion_plan import _check
from rlft.errors import ConfigError

DECIDED = {"name": "m", "version": "3", "reasons": ["fails: base"], "look": 2, "looks": 20}


@pytest.mark.parametrize(
    ("status", "promotion", "code"),
    [
        ("improved", {"promoted": True, **DECIDED}, 0),
        ("not_improved", {"promoted": True, **DECIDED}, 0),  # `test` and `gate` are other tasks
        ("improved", {"promoted": False, "approval": "pending", **DECIDED}, 0),
        ("improved", {"promoted": False, "approval": "rejected", **DECIDED}, 7),
        ("improved", {"promoted": False, **DECIDED}, 7),
        ("improved", {"reasons": ["not registered: away"]}, 5),
        ("failed", {}, 1),
    ],
)
def test_a_script_can_act_on_the_exit_code(status, promotion, code):
    assert _exit_code(Summary(status=status, promotion=Promotion(**promotion))) == code


@pytest.mark.parametrize(
    ("promotion", "code", "expected"),
    [
        ({"promoted": True}, 0, "version 3 of m is the champion"),
        ({"approval": "pending"}, 0, "version 3 of m has passed, and waits for approval"),
        ({}, 7, "not promoted: version 3 of m is no champion"),
    ],
)
def test_every_reason_is_told_and_what_became_of_it(capsys, promotion, code, expected):
    _tell("run", Promotion(**DECIDED, **promotion), as_json=False, code=code)
    assert capsys.readouterr().out.splitlines() == ["fails: base", expected]


def test_json_has_it_all(capsys):
    _tell("run", Promotion(**DECIDED), as_json=True, code=7)
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["promoted"], found["version"], found["exit_code"]) == ("run", False, "3", 7)
    assert (found["reasons"], found["look"], found["approval"]) == (["fails: base"], 2, None)


@pytest.mark.parametrize("override", ["training.rounds=3", "promotion.names=other", "promotion", "name=x"])
def test_only_rules_can_be_changed(override):
    with pytest.raises(ConfigError, match="cannot be changed for a run that is over"):
        _check(["promotion.looks=1", override])


def test_the_name_cannot_be_changed():
    with pytest.raises(ConfigError, match=r"promotion\.name cannot be changed for a run that is over"):
        _check(["promotion.name=other"])


def test_a_run_that_there_is_not_is_told_before_anything_begins(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for command in ("promote", "resume"):
        result = CliRunner().invoke(cli.make_app(), [command, "nope"])
        assert result.exit_code == 2
        assert "no run is called 'nope'" in result.output
        assert "begins" not in result.output


def test_rules_can_be_changed():
    _check(["promotion.looks=1", "promotion.suites.test.margin=0.1"])


def test_a_decision_is_told_although_its_summary_cannot_be_written_where_it_was_asked_for(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    keep_summary(tmp_path, Summary(status="improved", promotion=Promotion(promoted=True, **DECIDED)))
    with pytest.raises(typer.Exit) as ended:
        _finish(tmp_path, file / "summary.json", as_json=False)
    said = capsys.readouterr()
    assert (ended.value.exit_code, said.out.splitlines()[-1]) == (0, "version 3 of m is the champion")
    assert "could not be written to" in said.err

"""cli.compare: what it warns of."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cli.app import make_app


@pytest.mark.parametrize("split", ["gate", "test"])
def test_whoever_looks_at_the_gate_is_told_to_choose_by_validation(monkeypatch, split):
    monkeypatch.setattr("cli.compare.find_home", lambda: None)
    monkeypatch.setattr("mlops.runs.results.open_run", lambda home, run, stack: None)
    monkeypatch.setattr("cli.contrasted.stored_runs", lambda runs, split: {})
    monkeypatch.setattr("cli.contrasted.make_comparison", lambda runs, split, tasks: {"split": split})
    done = CliRunner().invoke(make_app(), ["compare", "a", "b", "--split", split, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"split": split}  # the warning is no part of what a program reads
    assert ("Choose by validation." in " ".join(done.stderr.split())) == (split == "gate")


@pytest.mark.parametrize("runs", [[], ["a"]])
def test_too_few_runs_are_answered_with_what_to_do(runs):
    done = CliRunner().invoke(make_app(), ["compare", *runs])
    said = " ".join(done.stderr.split())
    assert done.exit_code == 2, done.output
    assert "name two to 20 runs; `rlft runs` lists them" in said

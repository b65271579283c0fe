"""`rlft delete` and `rlft prune` leave a damaged home as it is, and `rlft prune` alone ends what was cut short."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli.removing import remove
from mlops.home.folder import Home
from mlops.runs import removing as removal
from mlops.runs.listing import Attempt, ListedRun
from mlops.runs.removing import Plan
from rlft.reporting import terminal


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run a command in this process, on a home in an empty folder."""
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setattr(terminal.errors, "_width", 2000)
    return lambda *arguments: CliRunner().invoke(cli.make_app(), list(arguments))


def test_prune_without_a_rule_is_refused(rlft):
    refused = rlft("prune")
    assert (refused.exit_code, "it is not said what is old" in refused.output) == (2, True)


def test_a_person_who_asks_for_json_sees_what_would_go_before_the_question(tmp_path, capsys, monkeypatch):
    began = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run = ListedRun("first", (Attempt("1" * 32, "first", "completed", began, 61.0),), "completed")
    monkeypatch.setattr("mlops.stacks.stack.connect", lambda *_: "")
    monkeypatch.setattr("mlops.runs.removing.make_plan", lambda *_, **__: Plan([run]))
    monkeypatch.setattr(removal, "remove_runs", lambda home, plan: plan)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    options = {"resumable_too": False, "dry_run": False, "yes": False, "as_json": True}
    remove(Home(tmp_path), [run], **options)
    said = capsys.readouterr()
    assert json.loads(said.out)["removed"] is True
    listed, question = said.err.splitlines()
    assert listed.startswith("first, 2026-03-01")
    assert question == "1 run to remove"

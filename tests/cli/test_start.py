"""A run that cannot work is refused with everything that is wrong, before ZenML or MLflow have been touched."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli.start import check_start
from mlops.home.folder import Home
from rlft.config.file import load_config
from rlft.engines.kinds import is_installed
from rlft.errors import NotReadyError, RlftError, StorageError
from rlft.reporting import terminal
from tests.e2e.conftest import TINY

NOWHERE = ["--set", "environment.name=nowhere:Thing", "--set", "policy.chat_template=none.jinja"]


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run a command in this process, in an empty folder, where connecting to a store is an error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLFT_HOME", raising=False)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setattr(terminal.errors, "_width", 200)
    return lambda *arguments: CliRunner().invoke(cli.make_app(), list(map(str, arguments)))


def test_everything_is_told_at_once_and_nothing_is_left_behind(rlft, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1 =", "answer": "2"}\n')
    tasks = "tasks={source: jsonl, path: rows.jsonl, prompt: question, answer: anwser}"
    result = rlft("run", TINY, "--set", tasks, *NOWHERE, "--summary", "s.json")
    assert result.exit_code == 2
    assert "3 things keep this run from starting" in result.output
    assert "has no field 'anwser'" in result.output
    assert "did you mean answer?" in result.output
    assert "no module named 'nowhere'" in result.output
    assert "'none.jinja' is no template" in result.output
    assert result.output.count("what to do:") == 3
    assert "resume" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "s.json"]  # no database anywhere
    assert json.loads((tmp_path / "s.json").read_text())["error"].startswith("3 things")


def test_a_single_problem_reads_as_it_always_did(rlft, monkeypatch):
    monkeypatch.setattr("rlft.engines.kinds.is_installed", lambda _: False)
    result = rlft("run", TINY, "--set", "rollout.engine=vllm")
    assert result.exit_code == 2
    start, error, *_ = result.output.splitlines()
    assert start.startswith("tiny begins: its set-up is checked")  # before anything that takes long
    assert error == "error rollout.engine: vllm is not installed"


def test_what_a_stack_s_machines_have_is_left_to_them(tmp_path):
    config = load_config(TINY, [NOWHERE[1], NOWHERE[3], "rollout.engine=vllm", "policy={model: /on/the/cluster}"])
    check_start(config, Home(tmp_path / ".rlft"), stack="remote")
    with pytest.raises(NotReadyError) as caught:
        check_start(config, Home(tmp_path / ".rlft"), stack=None)
    assert len(caught.value.problems) == (2 if is_installed("vllm") else 3)


def test_a_variable_that_is_not_set_is_told_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("RLFT_TEST_UNSET", raising=False)
    config = load_config(TINY, ["environment.kwargs.key=env:RLFT_TEST_UNSET"])
    with pytest.raises(NotReadyError, match="needs the variable RLFT_TEST_UNSET"):
        check_start(config, Home(tmp_path / ".rlft"), stack=None)


@pytest.mark.parametrize("stack", [None, "remote"])
def test_a_home_that_cannot_be_made_is_told(tmp_path, monkeypatch, stack):
    (tmp_path / "file").write_text("")
    config = load_config(TINY)
    monkeypatch.setattr("cli.start.find_problems", lambda config, folder: [])
    with pytest.raises(NotReadyError) as caught:
        check_start(config, Home(tmp_path / "file" / "home"), stack=stack)
    [home] = caught.value.problems
    assert isinstance(home, StorageError)


def test_a_home_of_someone_else_is_told(tmp_path, monkeypatch):
    home = Home(tmp_path / ".rlft")
    home.make()
    monkeypatch.setattr(os, "access", lambda place, mode: place != home.root)  # root may write anywhere
    with pytest.raises(NotReadyError, match="no folder can be made or written there"):
        check_start(load_config(TINY), home, stack="remote")


def test_problems_stand_below_each_other_with_their_ways_out():
    text = str(NotReadyError([RlftError("no a", where="x.a", fix="make a"), RlftError("no b\nat all", fix="make b")]))
    assert text == (
        "2 things keep this run from starting:\n"
        "  x.a: no a\n"
        "    what to do: make a\n"
        "  no b\n"
        "  at all\n"
        "    what to do: make b"
    )

"""cli.trust: what another person's run would run is asked about, before any of it runs."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cli.trust import agree
from mlops.home.folder import Home
from mlops.home.trusted import is_trusted
from mlops.runs import owners
from rlft.config.file import load_config
from rlft.errors import UntrustedError
from tests.e2e.conftest import TINY

CONFIG = load_config(TINY, ["environment.kwargs={gold_template: {_target_: 'subprocess:getoutput'}}"])
SETTINGS = {"name": "evil"}
RUN: Any = SimpleNamespace(config=SimpleNamespace(parameters={"config": SETTINGS}))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setattr(owners, "somebody_else", lambda home, run: "anna")
    return Home(tmp_path)


def answered(monkeypatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(typer, "confirm", lambda question, err: answer == "y")


def test_where_nobody_can_be_asked_it_is_refused_with_what_it_would_run(home):
    with pytest.raises(UntrustedError) as refused:
        agree(home, RUN, "theirs", CONFIG, trusted=False)
    said = str(refused.value)
    assert said.startswith("RUN: theirs was begun by anna, and it would run with your rights and your variables:\n")
    assert "    call of subprocess:getoutput (environment.kwargs.gold_template._target_)\n" in said
    assert "give the command again with --trust" in said
    assert refused.value.exit_code == 2
    assert not is_trusted(home, SETTINGS)


def test_a_no_ends_the_command_and_is_no_trust(home, monkeypatch, capsys):
    answered(monkeypatch, "n")
    with pytest.raises(typer.Exit) as ended:
        agree(home, RUN, "theirs", CONFIG, trusted=False)
    assert ended.value.exit_code == 1
    assert "call of subprocess:getoutput" in capsys.readouterr().err
    assert not is_trusted(home, SETTINGS)


def test_a_yes_goes_on_and_is_noted(home, monkeypatch):
    answered(monkeypatch, "y")
    agree(home, RUN, "theirs", CONFIG, trusted=False)
    assert is_trusted(home, SETTINGS)


def test_the_option_goes_on_and_says_whose_run_it_is(home, caplog):
    agree(home, RUN, "theirs", CONFIG, trusted=True)
    assert "theirs was begun by anna" in caplog.text
    assert is_trusted(home, SETTINGS)


def test_ones_own_run_asks_nothing(home, monkeypatch):
    monkeypatch.setattr(owners, "somebody_else", lambda home, run: None)
    agree(home, RUN, "mine", CONFIG, trusted=False)
    assert not is_trusted(home, SETTINGS)

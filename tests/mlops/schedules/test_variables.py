"""Variables of a schedule: each value as it stands, whatever it would mean to a shell."""

from __future__ import annotations

import os

import pytest

from mlops.schedules.variables import read_variables, variables_file, with_variables
from mlops.schedules.watch import carry_out
from tests.mlops.schedules.conftest import MONDAY, Scripted

ADDRESS = "https://chat.example.com/hooks?key=K123&token=T$(touch PWNED)`id`\\#%'x"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (f"HOOK={ADDRESS}", ADDRESS),
        (f"  HOOK= {ADDRESS} \r", ADDRESS),
        ('HOOK="http://a.example/x"', "http://a.example/x"),
        ("HOOK='a \"b\" '", 'a "b" '),
        ('HOOK="', '"'),
        ("HOOK=", ""),
    ],
)
def test_a_value_is_what_stands_behind_the_sign(tmp_path, line, value):
    (tmp_path / "a.env").write_text(f"# one\n\n; two\n{line}\nLAST=1\n")
    assert read_variables(tmp_path / "a.env") == {"HOOK": value, "LAST": "1"}


@pytest.mark.parametrize("line", ["HOOK", "=x", "MY HOOK=x", "9A=x", "A=x\0y", "export A=x"])
def test_other_lines_are_told_and_left_out(tmp_path, line, caplog):
    (tmp_path / "a.env").write_text(f"A1=1\n{line}\nB=2\n")
    assert read_variables(tmp_path / "a.env") == {"A1": "1", "B": "2"}
    assert "a.env, line 2: this is not NAME=value, and is left out" in caplog.text


def test_a_file_that_is_not_there_says_nothing_and_one_that_cannot_be_read_is_told(tmp_path, caplog):
    assert (read_variables(tmp_path / "a.env"), caplog.text) == ({}, "")
    assert read_variables(tmp_path) == {}
    assert "cannot be read: this is a folder, not a file" in caplog.text
    os.mkfifo(tmp_path / "b.env")
    assert read_variables(tmp_path / "b.env") == {}  # and nobody waits for its writer
    assert "cannot be read: this is a pipe, not a file" in caplog.text


def test_they_are_there_while_a_schedule_runs_and_only_then(bench, monkeypatch):
    bench.apply()
    bench.apply(name="other")
    variables_file(bench.home, "weekly").write_text(f"WEEKLY_HOOK={ADDRESS}\nOWN=theirs\n")
    monkeypatch.setenv("OWN", "ours")
    monkeypatch.delenv("WEEKLY_HOOK", raising=False)
    seen = []

    class Seeing(Scripted):
        def call(self, command, folder, lock):
            seen.append((os.environ.get("WEEKLY_HOOK"), os.environ["OWN"]))
            return super().call(command, folder, lock)

    for firing in bench.look(MONDAY):
        carry_out(Seeing(bench.home, now=MONDAY), firing.id)
    assert seen.count((None, "ours")) == seen.count((ADDRESS, "theirs")) == 1
    with with_variables(bench.home, "weekly"):
        assert os.environ["OWN"] == "theirs"
    assert (os.environ.get("WEEKLY_HOOK"), os.environ["OWN"]) == (None, "ours")

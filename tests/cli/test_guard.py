"""An error that nobody expected ends a command with one line that says where it came from."""

import json
import os

import pytest
import typer

from cli import guard
from mlops.home.folder import Home

CODE = "def price(row):\n    return row['prize']\n"


def test_it_names_the_users_line_and_what_there_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    (tmp_path / "price_of_a_row.py").write_text(CODE)
    import price_of_a_row  # type: ignore[import-not-found]

    with pytest.raises(typer.Exit) as caught, guard.guarded(False, None):
        price_of_a_row.price({"price": 3, "name": "pear"})
    assert caught.value.exit_code == 1
    # The line of this test is user code as well, but an outer one.
    assert (
        "unexpected error KeyError: 'prize', at price_of_a_row.py:2; row has: price, name\n" in capsys.readouterr().err
    )


def test_a_damaged_summary_of_another_run_is_passed_over(tmp_path):
    home = Home(tmp_path)
    (tmp_path / "runs").mkdir()
    for number, text in enumerate(["", '{"status": "runn', "[]", "{}"]):
        home.summary_file(f"a-{number}").write_text(text)
    own = {"status": "running", "process": os.getpid(), "pipeline_run_id": "b"}
    home.summary_file("b").write_text(json.dumps(own))
    assert guard.summary_since(home, 0.0) == own


def test_a_full_disk_is_a_sentence_without_statements(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    with pytest.raises(typer.Exit), guard.guarded(False, None):
        raise OSError("(sqlite3.OperationalError) database or disk is full [SQL: UPDATE pipeline_run SET updated=?]")
    said = capsys.readouterr().err
    assert f"the disk is full: a database in {tmp_path} could not be written" in said
    assert "SQL" not in said

"""An error that nobody expected ends a command with one line that says where it came from."""

import os
import subprocess
import sys

import pytest
import typer

from cli import guard
from mlops.home.folder import Home
from mlops.runs.summary import Summary
from mlops.runs.summary_file import keep_summary

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
    own = Summary(status="running", process=os.getpid(), pipeline_run_id="b")
    keep_summary(home, own)
    assert guard.summary_since(home, 0.0) == own


def test_a_full_disk_is_a_sentence_without_statements(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    with pytest.raises(typer.Exit), guard.guarded(False, None):
        raise OSError("(sqlite3.OperationalError) database or disk is full [SQL: UPDATE pipeline_run SET updated=?]")
    said = capsys.readouterr().err
    assert f"the disk is full: a database in {tmp_path} could not be written" in said
    assert "SQL" not in said


def test_folders_of_the_same_names_in_a_users_repository_do_not_stand_in_for_rlfts_own(tmp_path):
    for name in ("steps", "pipelines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "prices.py").write_text("ROW = 3\n")
    program = """if True:
        from cli.guard import guarded
        with guarded(False, None):
            import importlib.util, prices
            found = [importlib.util.find_spec(name) for name in ("pipelines.train", "steps.train_grpo")]
            print(prices.ROW, None not in found)
    """
    environment = os.environ | {"RLFT_HOME": str(tmp_path / "home")}
    # as the console script: without the working directory in the path
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["3 True"], done.stderr

"""An error that nobody expected ends a command with one line that says where it came from."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli import guard
from cli.options import Summary as SummaryOption
from mlops.home.folder import find_home
from mlops.summary.file import keep_summary, summary_text
from mlops.summary.summary import Summary
from rlft.errors import RlftError

CODE = "def price(row):\n    return row['prize']\n"


def test_it_names_the_users_line(tmp_path, monkeypatch, capsys):
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
    assert "unexpected error KeyError: 'prize', at price_of_a_row.py:2\n" in capsys.readouterr().err


@pytest.mark.parametrize(("begun", "said"), [(True, "rlft resume mine"), (False, "rlft resume")])
def test_an_error_of_a_run_that_has_begun_names_the_whole_command_that_goes_on_with_it(
    begun, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)

    def fails(interrupt):
        interrupt.folder, interrupt.resume = tmp_path / "runs" / "mine", "rlft resume mine"
        if begun:
            keep_summary(interrupt.folder, Summary(status="running"))
        raise RlftError("a trainer has died", where="distributed", fix="`rlft resume` goes on with the run")

    with pytest.raises(typer.Exit), guard.guarded(False, tmp_path / "s.json") as interrupt:
        fails(interrupt)
    assert capsys.readouterr().err.endswith(f"what to do: `{said}` goes on with the run\n")
    assert f"`{said}` goes on" in json.loads((tmp_path / "s.json").read_text())["error"]


def test_a_shortage_is_a_sentence_that_the_summary_has_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    with pytest.raises(typer.Exit) as caught, guard.guarded(False, tmp_path / "s.json"):
        bytearray(1 << 62)
    what = "there is too little memory"
    fix = "free memory, or use a smaller model or smaller batches, then start again"
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == f"error {what}\n  what to do: {fix}\n"
    assert json.loads((tmp_path / "s.json").read_text())["error"] == f"{what}\n  what to do: {fix}"


@pytest.mark.parametrize(("begun", "then"), [(True, "then `rlft resume a --stack team`"), (False, "then start again")])
def test_what_goes_on_with_a_run_that_had_begun_is_named(tmp_path, monkeypatch, capsys, begun, then):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)

    def fail(begun_here: guard.Begun) -> None:
        begun_here.folder, begun_here.resume = tmp_path / "shared" / "a", "rlft resume a --stack team"
        if begun:
            keep_summary(begun_here.folder, Summary(status="running"))
        bytearray(1 << 62)

    with pytest.raises(typer.Exit), guard.guarded(False, None) as interrupt:
        fail(interrupt)
    assert then in capsys.readouterr().err


def test_the_home_and_the_summary_stay_where_the_user_stood_whatever_changes_the_folder(tmp_path, monkeypatch):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLFT_HOME", raising=False)
    app = typer.Typer()

    @app.command()
    def score(summary: SummaryOption = None) -> None:
        with guard.guarded(False, summary):
            os.chdir(elsewhere)  # as a reward may
            found.append(find_home().root)
            raise RlftError("it fails")

    found: list[Path] = []
    result = CliRunner().invoke(app, ["--summary", "s.json"])
    assert result.exit_code == 2
    assert found == [tmp_path / ".rlft"]
    assert json.loads((tmp_path / "s.json").read_text())["error"] == "it fails"
    assert find_home().root == elsewhere / ".rlft"  # after the command it is as before


@pytest.mark.parametrize("text", ["model: {}\n", "[]", '{"status": "failed"}', "\xff"])
def test_a_file_that_is_no_summary_is_neither_removed_nor_overwritten(tmp_path, monkeypatch, capsys, text):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    (file := tmp_path / "my.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(typer.Exit) as caught, guard.guarded(False, file):
        pytest.fail("it goes on")
    assert caught.value.exit_code == 2
    assert file.read_bytes() == text.encode("latin-1")
    assert "this file is no summary, or cannot be replaced" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", summary_text(Summary(status="failed"))])
def test_an_older_summary_is_removed_before_anything_else(tmp_path, monkeypatch, text):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    (file := tmp_path / "s.json").write_text(text)
    with guard.guarded(False, file):
        assert not file.exists()

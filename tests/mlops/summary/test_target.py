"""The file of `--summary`: what cannot be one is refused at once, and whatever stands there or beside it stays."""

from __future__ import annotations

import json
import os
import socket
import stat

import pytest
from typer.testing import CliRunner

from cli import app, guard
from cli.result import finish
from mlops.summary.file import clear_target, keep_summary, summary_text, write_summary
from mlops.summary.summary import Summary
from rlft.errors import ConfigError
from tests.e2e.conftest import TINY

BAD = ["--set", "seed=-1"]  # the config is refused, and `--summary` says so


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run `rlft run`, which ends with an error that the summary has, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLFT_HOME", raising=False)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setattr(guard.errors, "_width", 2000)

    def run(summary):
        result = CliRunner().invoke(app.make_app(), ["run", str(TINY), *BAD, "--summary", str(summary)])
        assert result.exit_code == 2
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.output

    return run


def _socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "is_kind", "said"),
    [
        (os.mkfifo, stat.S_ISFIFO, "this is a pipe, not a file"),
        (_socket, stat.S_ISSOCK, "this is a socket, not a file"),
        (os.mkdir, stat.S_ISDIR, "this is a folder, not a file"),
        (lambda path: os.symlink(path, path), stat.S_ISLNK, "Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_is_refused_and_stays(rlft, tmp_path, make, is_kind, said):
    make(tmp_path / "s.json")
    output = rlft("s.json")
    assert f"--summary {tmp_path / 's.json'}: " in output
    assert said in output
    assert "let --summary name another file" in output
    assert "seed" not in output  # before the config is read
    assert is_kind((tmp_path / "s.json").lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
    write_summary(tmp_path / "s.json", Summary(status="failed"))  # one that came there while the run went on stays, too
    assert is_kind((tmp_path / "s.json").lstat().st_mode) or make is not os.mkfifo
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize("name", ["file/s.json", "a" * 300, "/proc/none/s.json"])
def test_a_place_where_nothing_can_be_written(rlft, tmp_path, name):
    (tmp_path / "file").write_text("mine")
    assert "error --summary" in (output := rlft(name))
    assert "nothing can be written there: " in output
    assert (tmp_path / "file").read_text() == "mine"


def test_beside_the_runs_there_is_room_for_a_summary(rlft, tmp_path):
    assert "error" in rlft(".rlft/demo.json")  # as `make demo` asks for
    assert json.loads((tmp_path / ".rlft" / "demo.json").read_text())["status"] == "failed"


def test_a_link_is_written_through(rlft, tmp_path):
    (tmp_path / "link.json").symlink_to("there.json")
    rlft("link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "there.json").read_text())["status"] == "failed"
    rlft("link.json")  # and so once more
    assert (tmp_path / "link.json").is_symlink()


def test_a_file_beside_it_is_never_touched(rlft, tmp_path):
    (tmp_path / "s.json.partial").write_text("mine")
    rlft("s.json")
    assert (tmp_path / "s.json.partial").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.json", "s.json.partial"]


def test_an_older_summary_that_cannot_be_removed_is_told_before_the_run(tmp_path, monkeypatch):
    (target := tmp_path / "s.json").write_text(summary_text(Summary(status="failed")))

    def refused(path, missing_ok=False):
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("pathlib.Path.unlink", refused)  # as in /tmp, where it is another user's
    with pytest.raises(ConfigError, match="cannot be replaced"):
        clear_target(target)


def test_a_result_is_shown_where_its_file_cannot_be_written_any_more(tmp_path, capsys):
    folder = tmp_path / "own"
    keep_summary(folder, Summary(status="not_improved"))
    os.mkfifo(tmp_path / "s.json")
    with pytest.raises(guard.typer.Exit) as caught:
        finish(folder, "an-id", tmp_path / "s.json", None)
    assert caught.value.exit_code == 5  # of a run that has trained and registered nothing, not that of an error
    printed = capsys.readouterr()
    assert "the summary could not be written to" in printed.err
    assert "not measurably better" in printed.out
    assert "own/summary.json" in "".join(printed.out.replace("│", "").split())  # where it is instead
    assert stat.S_ISFIFO((tmp_path / "s.json").stat().st_mode)

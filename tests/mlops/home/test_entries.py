"""Entries of a home that are something else than they should be: each command ends with a sentence."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from cli import app
from cli.start import check_kept
from mlops.display import terminal
from mlops.home.entries import check_entries, find_odd
from mlops.home.folder import Home
from rlft.errors import StorageError
from tests.e2e.conftest import TINY

STORE = "zenml/local_stores/0a1b"
FILES = {
    "mlflow.db": "curves, traces, and the versions and aliases of registered models",
    "zenml/local_stores/default_zen_store/zenml.db": "which runs there are",
    "zenml/config.yaml": "ZenML's settings, which are made again",
    "removing.json": "which removal of runs was cut short",
    "removing.json.lock": "nothing that would be missed",
    "stores.lock": "nothing that would be missed",
    "runs/abc.json": "the summary of a run. MLflow has it, too",
    "runs/abc.process.json": "whether the process of a run is alive",
    "runs/abc.calls": "what the environment's code did",
    "runs/0f.lock": "nothing that would be missed",
}
FOLDERS = {
    "runs": "the summaries of the runs. Their curves are in MLflow",
    "zenml": "the artifacts and ZenML's database",
    "zenml/local_stores": "the artifacts and ZenML's database",
    STORE: "artifacts of runs, or their seals",
    f"{STORE}/seals": "artifacts of runs, or their seals",
    "mlflow-artifacts": "the weights of registered models",
    "scratch": "nothing that would be missed",
}


@pytest.fixture
def home(tmp_path):
    """A home that has all its folders."""
    for name in FOLDERS:
        (tmp_path / ".rlft" / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / ".rlft/zenml/local_stores/default_zen_store").mkdir()
    return Home(tmp_path / ".rlft")


def put(home, name, make):
    path = home.root / name
    if path.is_dir():
        path.rename(home.root.parent / "away")
    make(path)


def test_a_home_as_it_should_be_and_one_that_is_not_there(home, tmp_path):
    for name in FILES:
        (home.root / name).touch()
    (home.root / "runs" / "my notes").mkdir()  # what is the user's own does not count
    (home.root / "mlflow-artifacts").rename(tmp_path / "large")
    (home.root / "mlflow-artifacts").symlink_to(tmp_path / "large")  # on another disk, as a user may have it
    check_entries(home)
    check_entries(Home(tmp_path / "none"))


@pytest.mark.parametrize(("name", "lost"), FILES.items())
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkdir, "this is a folder, not a file"),
        (os.mkfifo, "this is a pipe, not a file"),
        (lambda path: path.symlink_to("/nowhere/at/all"), "this is a link that leads nowhere"),
    ],
)
def test_what_stands_in_the_place_of_a_file(home, name, lost, make, said):
    put(home, name, make)
    [found] = find_odd(home)
    assert found.where == str(home.root / name)
    assert found.what.startswith(f"{said}. What should be there holds {lost}")
    assert "`rlft doctor` says what is missing then" in found.fix


@pytest.mark.parametrize(("name", "lost"), FOLDERS.items())
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("strange"), "this is a file, not a folder"),
        (lambda path: path.symlink_to("/nowhere/at/all"), "this is a link that leads nowhere"),
    ],
)
def test_what_stands_in_the_place_of_a_folder_is_told_once(home, name, lost, make, said):
    put(home, name, make)
    [found] = find_odd(home)
    assert found.where == str(home.root / name)
    assert found.what.startswith(f"{said}. What should be there holds {lost}")


@pytest.mark.parametrize("name", ["runs", "mlflow.db", "runs/abc.json"])
def test_what_this_user_cannot_read_or_write(home, name, monkeypatch):
    (home.root / "mlflow.db").touch()
    (home.root / "runs" / "abc.json").touch()
    allowed = 0
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != home.root / name or not mode & ~allowed
    )  # root may all
    [found] = find_odd(home)
    assert "cannot be read by this user" in found.what
    assert "chmod" in found.fix
    allowed = os.R_OK | os.X_OK
    check_entries(home)
    if name != "runs/abc.json":
        with pytest.raises(StorageError, match="this cannot be written by this user"):
            check_kept(home)


def test_a_home_that_is_a_file(tmp_path):
    (tmp_path / "home").touch()
    with pytest.raises(StorageError, match="this is a file, not a folder"):
        check_entries(Home(tmp_path / "home"))


COMMANDS = [
    ("runs",),
    ("show", "one", "final"),
    ("prune", "--keep-last", "1"),
    ("prune",),
    ("delete", "one"),
    ("ui",),
    ("resume", "one"),
    ("run", str(TINY)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["mlflow.db"])
def test_no_command_waits_for_a_pipe_in_the_home(home, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLFT_HOME", raising=False)
    for variable in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(variable, "ERROR")
    monkeypatch.setattr(terminal.errors, "_width", 2000)
    os.mkfifo(home.root / name)
    before = sorted(home.root.rglob("*"))
    result = CliRunner().invoke(app.app, command)
    assert result.exit_code == 1
    assert f"error {home.root / name}: this is a pipe, not a file" in result.output
    assert "what to do: move it away" in result.output
    assert sorted(home.root.rglob("*")) == before

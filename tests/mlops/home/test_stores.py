"""A home whose making was cut short anywhere is completed by the next start, and one with runs is never made anew."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy
import yaml

from mlops.home import stores
from mlops.home.databases import DATABASES, MLFLOW, ZENML, complaint
from mlops.home.faults import check_home
from mlops.home.folder import _CONTENTS, MAKING, Home
from mlops.home.settings import are_whole
from mlops.home.stores import make_stores
from rlft.errors import StorageError
from tests.e2e import conftest
from tests.mlops.home.making import ID, make_databases


@pytest.fixture
def own_environment(monkeypatch, tmp_path_factory) -> None:
    """Variables that a test may change, with a folder for the settings of this process."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ["ZENML_CONFIG_PATH"] = str(tmp_path_factory.mktemp("process"))


@pytest.fixture
def quickly(monkeypatch, own_environment) -> None:
    """Databases with only the tables that matter, instead of the seconds that the real ones take."""
    monkeypatch.setattr(stores, "_open", make_databases)


def is_finished(home):
    files = [database.file(home) for database in DATABASES]
    return all(file.is_file() and complaint(file) is None for file in files) and are_whole(home)


@pytest.mark.slow
def test_killed_while_they_are_made_they_are_made_by_the_next_starts_which_come_together(tmp_path):
    home = conftest.Home(tmp_path)
    for moment in (50, 700):  # in ZenML's first statements and in MLflow's
        killed = home.module("tests.mlops.home.killed", str(moment))
        assert killed.returncode == -9, killed.stderr
        assert not is_finished(Home(tmp_path / ".rlft"))
        for entry in (tmp_path / ".rlft").iterdir():
            assert entry.name in _CONTENTS or entry.name.startswith(MAKING)
    with ThreadPoolExecutor() as pool:
        starts = [pool.submit(home.module, "tests.mlops.home.killed", "0") for _ in range(3)]
    assert [(start.result().returncode, start.result().stderr) for start in starts] == [(0, "")] * 3
    found = home.query("print(json.dumps([client.active_stack_model.name, len(mlflow_client.search_experiments())]))")
    assert found == ["default", 1]
    assert not list((tmp_path / ".rlft").glob(f"{MAKING}*"))


def in_a_child(home, moment):
    """Make the databases in a child that dies at the n-th of its steps on files and databases; its exit code."""
    if (pid := os.fork()) == 0:
        left = moment

        def die(event, arguments):
            nonlocal left
            left -= event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect")
            if left == 0:
                os._exit(9)

        sys.addaudithook(die)
        make_stores(home)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("quickly")
def test_killed_at_any_step_they_are_made_by_the_next_start(tmp_path):
    moment, ended = 0, 9
    while ended == 9:
        moment += 1
        home = Home(tmp_path / str(moment))
        home.root.mkdir()
        ended = in_a_child(home, moment)
        make_stores(home)
        assert is_finished(home), moment
        left = {entry.name for entry in home.root.iterdir()} - {"mlflow.db", "stores.lock", "zenml"}
        files = [each for name in left for each in (home.root / name).rglob("*") if each.is_file()]
        assert not files, moment  # empty folders at most
    assert ended == 0
    assert moment > 25


@pytest.mark.usefixtures("quickly")
def test_of_many_that_start_together_one_makes_them(tmp_path, monkeypatch):
    home, made = Home(tmp_path), tmp_path.with_suffix(".made")
    monkeypatch.setattr(stores, "_open", lambda *to: (made.open("a").write("x"), make_databases(*to)))
    children = [os.fork() or _make_in_a_process_of_its_own(home, tmp_path) for _ in range(8)]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
    assert made.read_text() == "x"
    assert is_finished(home)


def _make_in_a_process_of_its_own(home, folder):
    """Make the databases in a forked child, which ends here whatever happens: pytest's own process goes on alone."""
    ended = 1
    try:
        own = folder / f"process{os.getpid()}"
        own.mkdir()
        os.environ["ZENML_CONFIG_PATH"] = str(own)  # as each real process has: they share the home alone
        make_stores(home)
        ended = 0 if is_finished(home) else 2
    finally:
        os._exit(ended)


@pytest.mark.usefixtures("quickly")
def test_settings_name_the_ids_of_the_database_and_each_process_has_a_copy(tmp_path):
    make_stores(Home(tmp_path))
    settings = (tmp_path / "zenml" / "config.yaml").read_text()
    content = yaml.safe_load(settings)
    assert content["store"]["url"] == f"sqlite:///{tmp_path}/{ZENML.path}"
    assert {content[name].replace("-", "") for name in ("user_id", "active_stack_id", "active_project_id")} == {ID}
    assert (Path(os.environ["ZENML_CONFIG_PATH"]) / "config.yaml").read_text() == settings


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("left", [0, 330, None])
def test_settings_that_were_cut_are_made_by_the_next_start(tmp_path, left):
    home, file = Home(tmp_path), tmp_path / "zenml" / "config.yaml"
    make_stores(home)
    whole = file.read_text()
    file.unlink() if left is None else file.write_text(whole[:left])
    make_stores(home)
    assert file.read_text() == whole


@pytest.mark.usefixtures("quickly")
def test_a_home_that_was_moved_or_copied_is_refused(tmp_path):
    make_stores(Home(tmp_path / "old"))
    check_home(Home(tmp_path / "old"))
    home = Home((tmp_path / "old").rename(tmp_path / "new"))
    with pytest.raises(StorageError) as error:
        check_home(home)
    assert (error.value.where, str(tmp_path / "old") in error.value.what) == (str(home.root), True)


@pytest.mark.usefixtures("quickly")
def test_a_finished_home_is_not_written_to(tmp_path):
    home = Home(tmp_path)
    make_stores(home)
    (tmp_path / "stores.lock").unlink()
    make_stores(home)
    assert {entry.name for entry in tmp_path.iterdir()} == {"zenml", "mlflow.db"}


@pytest.mark.usefixtures("quickly")
def test_an_unfinished_home_that_cannot_be_written_to_says_so(tmp_path):
    (tmp_path / "stores.lock").mkdir()  # which cannot be opened, and root may open any file
    with pytest.raises(StorageError, match="RLFT_HOME to a folder that you can write to"):
        make_stores(Home(tmp_path))


@pytest.mark.usefixtures("own_environment")
def test_a_full_disk_is_said_and_with_room_they_are_made(tmp_path, monkeypatch):
    home, pages = Home(tmp_path), 3  # one is sqlite's own, so the third table finds none

    def makes_tables(aside, databases):
        with sqlalchemy.create_engine(aside.tracking_uri).connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for name in "abc":
                connection.exec_driver_sql(f"CREATE TABLE {name} (x)")
        shutil.rmtree(aside.root)
        aside.root.mkdir()
        make_databases(aside, databases)

    monkeypatch.setattr(stores, "_open", makes_tables)
    with pytest.raises(StorageError) as error:
        make_stores(home)
    assert error.value.what == "the databases of the runs cannot be made: database or disk is full"
    assert "make room on the disk" in error.value.fix
    assert not MLFLOW.file(home).exists()
    pages = 4
    make_stores(home)
    assert is_finished(home)

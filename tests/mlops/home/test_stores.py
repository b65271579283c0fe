"""A home whose making was cut short is completed by the next start, and one with runs is never made anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mlops.home.databases import check_home, make_stores
from mlops.home.folder import Home
from rlft.errors import StorageError
from tests.e2e import conftest
from tests.mlops.home.making import finish


@pytest.fixture
def home(tmp_path) -> Home:
    finish(home := Home(tmp_path / "home"))
    return home


@pytest.mark.slow
def test_killed_while_they_are_made_they_are_made_by_the_next_starts_which_come_together(tmp_path):
    home = conftest.Home(tmp_path)
    for moment in (50, 700):  # in ZenML's first statements and in MLflow's
        killed = home.module("tests.mlops.home.killed", str(moment))
        assert killed.returncode == -9, killed.stderr
        assert not (tmp_path / ".rlft" / "home.json").exists()
    with ThreadPoolExecutor() as pool:
        starts = [pool.submit(home.module, "tests.mlops.home.killed", "0") for _ in range(3)]
    assert [(start.result().returncode, start.result().stderr) for start in starts] == [(0, "")] * 3
    found = home.query("print(json.dumps([client.active_stack_model.name, len(mlflow_client.search_experiments())]))")
    assert found == ["default", 1]


def test_a_home_that_was_moved_is_refused(home, tmp_path):
    check_home(home)
    moved = Home(home.root.rename(tmp_path / "new"))
    with pytest.raises(StorageError) as error:
        check_home(moved)
    assert (error.value.where, str(home.root) in error.value.what) == (str(moved.root), True)


@pytest.mark.parametrize("database", [0, 1])
def test_a_database_of_runs_that_is_gone_is_named(home, database):
    (file := home.databases[database]).unlink()
    with pytest.raises(StorageError) as error:
        check_home(home)
    assert str(file) in error.value.what


def test_a_finished_home_is_not_written_to(home):
    before = sorted(home.root.rglob("*"))
    make_stores(home)
    assert sorted(home.root.rglob("*")) == before


def test_an_unfinished_home_that_cannot_be_written_to_says_so(tmp_path):
    (tmp_path / "stores.lock").mkdir()  # which cannot be opened, and root may open any file
    with pytest.raises(StorageError, match="RLFT_HOME to a folder that you can write to"):
        make_stores(Home(tmp_path))

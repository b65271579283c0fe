"""A folder of runs that was moved: what it says of its own place, by value, and when it is left as it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import yaml

from mlops.home import moved
from mlops.home.databases import DATABASES
from mlops.home.folder import BACKUP, Home
from mlops.home.moved import former_place, settle
from mlops.home.processes import note_process
from rlft.errors import StorageError

PATHS = ("artifact_version", "artifact_visualization", "logs")
TABLES = {
    "zenml": {**dict.fromkeys(PATHS, "uri"), "pipeline_run": "exception_info"},
    "mlflow": {"runs": "artifact_uri", "model_versions": "source", "trace_tags": "value"},
}


def make_home(root: Path) -> Home:
    """A home with few tables; the real ones are moved in tests/e2e/test_lineage.py."""
    home = Home(root)
    store = root / "zenml" / "local_stores" / "default_zen_store"
    store.mkdir(parents=True)
    url = f"sqlite:///{store}/zenml.db"
    content = {"analytics_opt_in": False, "store": {"url": url, "backup_directory": f"{root}/zenml/database_backup"}}
    (root / "zenml" / "config.yaml").write_text(yaml.safe_dump(content))
    for name, path in (("zenml", store / "zenml.db"), ("mlflow", root / "mlflow.db")):
        with closing(sqlite3.connect(path)) as connection:
            for table, column in TABLES[name].items():
                connection.execute(f"CREATE TABLE {table} ({column} TEXT)")
                for value in (f"{root}/a/b", f"{root.as_uri()}/c", f"{root}-other/d", "s3://bucket/e", f"see {root}/f"):
                    connection.execute(f"INSERT INTO {table} VALUES (?)", (value,))
            if name == "mlflow":
                connection.execute("ALTER TABLE model_versions ADD COLUMN storage_location TEXT")
            connection.commit()
    return home


def values(home: Home, name: str, table: str) -> list[str]:
    path = {each.name: each.file(home) for each in DATABASES}[name]
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(f"SELECT {TABLES[name][table]} FROM {table} ORDER BY rowid")]


@pytest.mark.parametrize("name", ["new", "with space ä %20 'quote'"])
def test_paths_of_a_moved_home_are_those_of_its_new_place(tmp_path, name):
    old = make_home(tmp_path / "old home").root
    new = old.rename(tmp_path / name)
    home = Home(new)
    assert former_place(home) == old
    assert settle(home) == old
    expected = [f"{new}/a/b", f"{new.as_uri()}/c", f"{old}-other/d", "s3://bucket/e", f"see {old}/f"]
    for table in PATHS:
        assert values(home, "zenml", table) == expected
    for table in ("runs", "model_versions", "trace_tags"):
        assert values(home, "mlflow", table) == expected
    assert values(home, "zenml", "pipeline_run")[0] == f"{old}/a/b"  # what an error said then stays
    store = yaml.safe_load((new / "zenml" / "config.yaml").read_text())["store"]
    assert store["url"] == f"sqlite:///{new}/zenml/local_stores/default_zen_store/zenml.db"
    assert store["backup_directory"] == f"{new}/zenml/database_backup"
    with closing(sqlite3.connect(new / BACKUP / "mlflow.db")) as kept:
        assert kept.execute("SELECT artifact_uri FROM runs").fetchone() == (f"{old}/a/b",)
    assert former_place(home) is None
    assert settle(home) is None


def test_a_home_within_the_old_place_is_rewritten_once(tmp_path, monkeypatch):
    old = make_home(tmp_path / "old").root
    new = tmp_path / "old" / "archive"
    old.rename(tmp_path / "aside")
    new.parent.mkdir()
    (tmp_path / "aside").rename(new)
    write = moved._write_config

    def dies(*_):
        raise OSError("the power went")

    monkeypatch.setattr(moved, "_write_config", dies)
    with pytest.raises(StorageError, match="the power went"):
        settle(Home(new))
    monkeypatch.setattr(moved, "_write_config", write)
    assert settle(Home(new)) == old
    assert values(Home(new), "zenml", "logs")[0] == f"{new}/a/b"  # not .../archive/archive/a/b
    with closing(sqlite3.connect(new / BACKUP / "mlflow.db")) as kept:  # as it was before the first attempt
        assert kept.execute("SELECT artifact_uri FROM runs").fetchone() == (f"{old}/a/b",)


def test_a_failure_in_one_database_leaves_the_other_as_it_was(tmp_path):
    old = make_home(tmp_path / "old").root
    new = old.rename(tmp_path / "new")
    with closing(sqlite3.connect(new / "mlflow.db")) as connection:
        connection.execute("CREATE TRIGGER refuse BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END")
        connection.commit()
    with pytest.raises(StorageError, match="its paths cannot be rewritten"):
        settle(Home(new))
    assert values(Home(new), "zenml", "logs")[0] == f"{old}/a/b"
    assert former_place(Home(new)) == old


def test_a_home_without_tracking_gets_no_empty_database(tmp_path):
    old = make_home(tmp_path / "old").root
    (old / "mlflow.db").unlink()
    new = old.rename(tmp_path / "new")
    assert settle(Home(new)) == old
    assert not (new / "mlflow.db").exists()


def test_a_home_that_is_in_use_is_left_as_it_is(tmp_path):
    old = make_home(tmp_path / "old").root
    new = old.rename(tmp_path / "new")
    note_process(Home(new), "id-of-the-run", "demo-1")
    with pytest.raises(StorageError, match=rf"while demo-1 \(process {psutil.Process().pid}\) went on"):
        settle(Home(new))
    assert former_place(Home(new)) == old


def test_one_that_cannot_be_written_to_says_where_it_was(tmp_path, monkeypatch):
    old = make_home(tmp_path / "old").root
    new = old.rename(tmp_path / "new")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match=f"moved or copied here from {old}"):
        settle(Home(new))


@pytest.mark.parametrize("content", ["", "store: {url: mysql://host/db}", "store:", "{half", "- a list"])
def test_settings_that_name_no_place_here_are_nobodys_move(tmp_path, content):
    (tmp_path / "zenml").mkdir()
    (tmp_path / "zenml" / "config.yaml").write_text(content)
    assert former_place(Home(tmp_path)) is None
    assert settle(Home(tmp_path)) is None

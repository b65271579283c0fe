"""A home whose databases were being made when the process was killed is as good as a new one."""

from __future__ import annotations

import json

import pytest

from pipelines.home import Home
from pipelines.stores import _remove, make_stores
from tests.e2e import conftest

KILLED = """
import os, signal
from sqlalchemy import event
from sqlalchemy.engine import Engine
from pipelines.home import find_home, quieten
from pipelines.stack import connect
def die(connection, cursor, statement, *_):
    if statement.strip().upper().startswith({statement!r}):
        os.kill(os.getpid(), signal.SIGKILL)
event.listen(Engine, "after_cursor_execute", die)
quieten(False); connect(find_home(), None)
"""


@pytest.mark.parametrize("statement", ["INSERT INTO FLAVOR", "CREATE TABLE _ALEMBIC_TMP_ENDPOINTS"])
def test_killed_while_they_are_made_they_are_made_anew(tmp_path, statement):
    home = conftest.Home(tmp_path)
    killed = home.python("-c", KILLED.format(statement=statement))
    assert killed.returncode == -9, killed.stderr
    begun = json.loads((tmp_path / ".rlft" / "unfinished.json").read_text())
    assert "mlflow.db" in begun
    found = home.query("print(json.dumps([client.active_stack_model.name, len(mlflow_client.search_experiments())]))")
    assert found == ["default", 1]
    assert not (tmp_path / ".rlft" / "unfinished.json").exists()


def test_what_was_there_before_stays(tmp_path, monkeypatch):
    home = Home(tmp_path)
    (tmp_path / "mlflow.db").write_text("of an earlier year")
    made = []

    def dies(home):
        made.append(home)
        (tmp_path / "zenml" / "local_stores" / "default_zen_store").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.stores._open", dies)
    for _ in range(2):  # the second time what the first began is made again
        with pytest.raises(KeyboardInterrupt):
            make_stores(home)
    assert len(made) == 2
    assert (tmp_path / "mlflow.db").read_text() == "of an earlier year"


def test_a_database_goes_with_its_journal(tmp_path):
    for name in ("mlflow.db", "mlflow.db-journal", "other.db"):
        (tmp_path / name).touch()
    _remove(tmp_path / "mlflow.db")
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]

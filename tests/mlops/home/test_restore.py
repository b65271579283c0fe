"""Damaged and missing databases are noticed and named, kept, and replaced by the best that there is."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing

import pytest

from mlops.home import backups, faults
from mlops.home.backups import back_up, newest_backup, renew_backups
from mlops.home.databases import DATABASES, MLFLOW, ZENML, complaint, is_complete
from mlops.home.faults import check_home, find_faults
from mlops.home.folder import Home
from mlops.home.locks import removal_lock
from mlops.home.processes import note_process
from mlops.home.restore import restore_home
from mlops.home.salvage import salvage
from mlops.home.stores import complete_settings
from rlft.errors import StorageError
from tests.mlops.home.making import make_databases

RUN = "12345678-1234-1234-1234-123456789012"


@pytest.fixture
def home(tmp_path) -> Home:
    """A home with a run: 2000 rows, of some 100 kB, in each database."""
    home = Home(tmp_path)
    make_databases(home, DATABASES)
    complete_settings(home)
    for database in DATABASES:
        with closing(sqlite3.connect(database.file(home))) as connection:
            connection.execute("CREATE TABLE filled (number INTEGER PRIMARY KEY, content TEXT)")
            connection.executemany("INSERT INTO filled VALUES (?, ?)", [(i, f"row {i:040d}") for i in range(2000)])
            connection.execute("CREATE TABLE refers (filled INTEGER REFERENCES filled (number))")
            connection.executemany("INSERT INTO refers VALUES (?)", [(i,) for i in range(2000)])
            connection.commit()
    (tmp_path / "zenml" / "local_stores" / RUN / "policy").mkdir(parents=True)
    (tmp_path / "mlflow-artifacts" / "1").mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    home.summary_file(RUN).write_text("{}")
    add_run(home, RUN)
    return home


def add_run(home, run):
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        connection.execute("INSERT INTO pipeline_run VALUES (?, 'first', 'completed')", (run.replace("-", ""),))
        connection.commit()


def rows(home, database, table="filled"):
    with closing(sqlite3.connect(database.file(home))) as connection:
        return {
            row
            for (row,) in connection.execute(
                f"SELECT * FROM {table}" if table == "refers" else f"SELECT number FROM {table}"
            )
        }


def cut(file, share=0.5):
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])


def flip(file, share=0.5, count=64):
    content = bytearray(file.read_bytes())
    start = int(len(content) * share)
    content[start : start + count] = bytes(255 - byte for byte in content[start : start + count])
    file.write_bytes(bytes(content))


DAMAGE = {
    "cut": cut,
    "emptied": lambda file: file.write_bytes(b""),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "first page zeroed": lambda file: file.write_bytes(bytes(4096) + file.read_bytes()[4096:]),
    "flipped": flip,
    "deleted": lambda file: file.unlink(),
}


def test_the_front_half_of_one_that_was_cut_is_saved(home):
    cut(ZENML.file(home), 0.6)
    [said] = restore_home(home)
    assert "holds what could be read of it" in said
    assert len(rows(home, ZENML)) > 500


@pytest.mark.parametrize("database", DATABASES, ids=lambda database: database.name)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_named_with_what_is_lost_and_the_copy_is_put_in_its_place(home, database, damage):
    assert find_faults(home, deep=True) == []
    back_up(home)
    DAMAGE[damage](database.file(home))
    left = database.file(home).read_bytes() if database.file(home).exists() else None
    with pytest.raises(StorageError) as error:
        check_home(home)
    assert error.value.where == str(database.file(home))
    assert re.search(
        r"this database is (gone|damaged: .+)\. It holds .+\. Nothing else is lost: .+ in ", error.value.what
    )
    assert re.search(r"`rlft doctor --restore` keeps .* puts the copy of 20..-..-.. ..:.. UTC", error.value.fix)
    [said] = restore_home(home)
    assert "is the copy of 20" in said
    assert "does not know" not in said
    assert find_faults(home, deep=True) == []
    assert rows(home, database) == set(range(2000))
    kept = list((home.root / "damaged").glob("*/*"))
    assert [file.read_bytes() for file in kept] == ([] if left is None else [left])
    assert restore_home(home) == []


def test_a_home_without_runs_has_no_faults_and_with_copies_alone_it_has(tmp_path):
    home = Home(tmp_path)
    assert find_faults(home) == []
    make_databases(home, DATABASES)
    back_up(home)
    ZENML.file(home).unlink()
    assert [fault.database for fault in find_faults(home)] == [ZENML]


def test_without_a_copy_the_rows_before_and_behind_the_damage_are_saved(home):
    flip(MLFLOW.file(home), count=4096)
    assert find_faults(home)
    [said] = restore_home(home)
    assert "holds what could be read of it. What was there is in" in said
    found = rows(home, MLFLOW)
    assert 1000 < len(found) < 2000
    assert {0, 1999} < found
    assert rows(home, MLFLOW, "refers") == found  # none refers to a lost one
    assert find_faults(home, deep=True) == []


def test_damage_that_loses_nothing_is_written_anew_although_there_is_a_copy(home):
    back_up(home)
    add_run(home, "2" * 32)
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        connection.execute("CREATE INDEX by_content ON filled (content)")
        connection.commit()
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'by_content'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    content = ZENML.file(home).read_bytes()
    ZENML.file(home).write_bytes(content[: (root - 1) * size] + bytes(size) + content[root * size :])
    assert complaint(ZENML.file(home))
    [said] = restore_home(home)
    assert "all of it could be read" in said
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        assert connection.execute("SELECT count(*) FROM pipeline_run").fetchone() == (2,)
        assert connection.execute("SELECT number FROM filled WHERE content LIKE '%0007'").fetchone() == (7,)


def test_a_page_that_holds_fewer_rows_than_its_index_knows_is_no_reason_to_pass_over_the_copy(home):
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        connection.execute("CREATE TABLE step (id TEXT PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO step VALUES (?, ?)", [(f"{i:08d}", "x" * 40) for i in range(20)])
        connection.commit()
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'step'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    back_up(home)
    add_run(home, "4" * 32)
    content = bytearray(ZENML.file(home).read_bytes())
    count = (
        root - 1
    ) * size + 3  # of the rows of a page, in two bytes (https://sqlite.org/fileformat.html#b_tree_pages)
    assert content[count : count + 2] == bytes([0, 20])
    content[count + 1] = 10
    ZENML.file(home).write_bytes(content)
    [said] = restore_home(home)
    assert "is the copy of" in said
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        assert connection.execute("SELECT count(*) FROM step NOT INDEXED").fetchone() == (20,)


def test_the_rows_of_a_table_with_a_generated_column_are_saved(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(
            "CREATE TABLE spans (begun INT, ended INT, took INT GENERATED ALWAYS AS (ended - begun) STORED)"
        )
        connection.execute("INSERT INTO spans (begun, ended) VALUES (3, 10)")
        connection.commit()
    assert salvage(tmp_path / "a.db", tmp_path / "saved.db")
    with closing(sqlite3.connect(tmp_path / "saved.db")) as connection:
        assert connection.execute("SELECT * FROM spans").fetchall() == [(3, 10, 7)]


def test_rows_that_something_else_has_changed_are_noticed_and_the_copy_has_them(home):
    back_up(home)
    file = ZENML.file(home)
    content = file.read_bytes()
    file.write_bytes(content.replace(b"row 0000000000000000000000000000000000000007", b"row" + b"9" * 41))
    [fault] = find_faults(home)
    assert "it has changed since the end of a run, and nothing has written to it" in fault.why
    [said] = restore_home(home)
    assert "is the copy of" in said
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT content FROM filled WHERE number = 7").fetchone() == (f"row {7:040d}",)
    assert find_faults(home) == []
    flip(file, count=1)
    assert find_faults(home)  # what was restored is noted, too


def test_what_sqlite_writes_after_a_run_is_no_damage(home):
    back_up(home)
    add_run(home, "3" * 32)
    assert find_faults(home, deep=True) == []


def test_text_that_is_damaged_is_found_by_a_deep_look(home):
    file = MLFLOW.file(home)
    content = file.read_bytes()
    place = content.index(b"row 00000")
    file.write_bytes(content[:place] + b"\xff\xfe" + content[place + 2 :])
    assert find_faults(home) == []
    [fault] = find_faults(home, deep=True)
    assert "UTF-8" in fault.why
    restore_home(home)
    assert len(rows(home, MLFLOW)) == 1999


def test_a_database_that_is_lost_with_no_copy_is_left_for_the_next_start_which_knows_that_it_had_runs(home):
    ZENML.file(home).write_bytes(b"")
    with pytest.raises(StorageError, match="there is no copy of it yet"):
        check_home(home)
    [said] = restore_home(home)
    assert "is made anew: nothing of it could be read, and there was no copy" in said
    assert f"does not know 1 of 1 runs that left a summary in runs/: {RUN}." in said
    assert not ZENML.file(home).exists()


def test_runs_that_a_copy_does_not_know_are_named(home):
    back_up(home)
    other = RUN.replace("1", "2")
    home.summary_file(other).write_text("{}")
    add_run(home, other)
    ZENML.file(home).unlink()
    [said] = restore_home(home)
    assert f"It does not know 1 of 2 runs that left a summary in runs/: {other}." in said


def test_the_newest_two_whole_copies_are_kept(home):
    for number in range(4):
        add_run(home, f"{number}" * 32)
        back_up(home)
    names = sorted(file.name for file in (home.root / "backups").iterdir())
    assert [name.split("-")[0] for name in names] == ["mlflow", "mlflow", "mlflow.json", "zenml", "zenml", "zenml.json"]
    names.remove("zenml.json")
    newest = newest_backup(home, ZENML)
    assert newest is not None
    assert newest.name == names[-1]
    with closing(sqlite3.connect(newest)) as connection:
        assert connection.execute("SELECT count(*) FROM pipeline_run").fetchone() == (5,)
    cut(newest)
    older = newest_backup(home, ZENML)
    assert older is not None
    assert older.name == names[-2]


def test_a_damaged_database_is_not_copied_and_a_locked_one_is_not_waited_for_without_end(home, caplog, monkeypatch):
    flip(MLFLOW.file(home), count=4096)
    back_up(home)
    assert {file.name.split("-")[0] for file in (home.root / "backups").glob("*.db")} == {"zenml"}
    assert f"{MLFLOW.file(home)} is damaged" in caplog.text
    monkeypatch.setattr(backups, "_SECONDS", 0.2)
    with closing(sqlite3.connect(ZENML.file(home), isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        back_up(home)
        assert find_faults(home, [ZENML], deep=True) == []
        assert is_complete(home, ZENML)
    assert "another process has kept it locked" in caplog.text
    assert len(list((home.root / "backups").glob("*.db"))) == 1


def test_a_run_that_was_removed_does_not_come_back_from_a_copy(home):
    for _ in range(2):
        back_up(home)
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        connection.execute("DELETE FROM pipeline_run")
        connection.commit()
    renew_backups(home)
    assert len(list((home.root / "backups").glob("*.db"))) == 2  # one of each
    cut(ZENML.file(home))
    [said] = restore_home(home)
    assert "is the copy of" in said
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        assert connection.execute("SELECT count(*) FROM pipeline_run").fetchone() == (0,)


def test_copies_stay_where_no_new_one_can_be_made(home):
    back_up(home)
    before = sorted((home.root / "backups").glob("zenml-*.db"))
    flip(ZENML.file(home), count=4096)
    renew_backups(home)
    assert sorted((home.root / "backups").glob("zenml-*.db")) == before


def test_the_cache_gives_out_no_result_of_a_copy_whose_folder_is_gone(home):
    there = home.root / "zenml" / "local_stores" / RUN / "policy"
    places = {"there": there, "gone": there.parent / "other", "elsewhere": home.root.parent / "bucket"}
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        for name, place in places.items():
            connection.execute("INSERT INTO artifact_version VALUES (?, ?)", (str(place), name))
            connection.execute("INSERT INTO step_run VALUES (?, NULL)", (name,))
            connection.execute("INSERT INTO step_run_output_artifact VALUES (?, ?)", (name, name))
        connection.commit()
    back_up(home)
    cut(ZENML.file(home))
    restore_home(home)
    with closing(sqlite3.connect(ZENML.file(home))) as connection:
        expired = connection.execute("SELECT id FROM step_run WHERE cache_expires_at IS NOT NULL").fetchall()
    assert expired == [("gone",)]
    assert find_faults(home, deep=True) == []


def test_nothing_is_restored_while_runs_are_removed(home):
    back_up(home)
    cut(ZENML.file(home))
    with removal_lock(home), pytest.raises(StorageError, match="removes runs of this home, or restores"):
        restore_home(home)
    assert not (home.root / "damaged").exists()


def test_a_home_in_which_a_run_goes_on_is_not_restored(home):
    note_process(home, RUN, "first")
    cut(ZENML.file(home))
    with pytest.raises(StorageError, match=r"first \(process [0-9]+\) goes on"):
        restore_home(home)


@pytest.mark.parametrize("seed", range(20))
def test_no_damage_anywhere_makes_saving_fail(home, tmp_path, seed):
    chance = random.Random(seed)
    flip(ZENML.file(home), chance.random() * 0.99, chance.choice([1, 64, 5000]))
    salvage(ZENML.file(home), tmp_path / "saved.db")
    if (tmp_path / "saved.db").exists():
        assert complaint(tmp_path / "saved.db") is None


def test_an_error_of_a_locked_database_names_who_holds_it(home):
    assert faults.explained(home, ValueError("of something else")) == []
    [found] = faults.explained(home, sqlite3.OperationalError("database is locked"))
    assert found.what == "another process has kept a database of the runs locked for long"
    [found] = faults.explained(home, sqlite3.OperationalError("no such column: pipeline_run.naNe\n[SQL: ...]"))
    assert "of another version of ZenML: no such column: pipeline_run.naNe. It holds" in found.what

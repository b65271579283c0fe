"""What is stored of schedules, by several processes and after kills."""

from __future__ import annotations

import errno
import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from mlops.home.entries import find_odd
from mlops.home.folder import Home
from mlops.schedules import store
from mlops.schedules.firings import forget_damaged
from rlft.errors import ConfigError, RlftError, StorageError
from rlft.schedule.reasons import Facts
from tests.mlops.schedules.conftest import CONTENT, MONDAY


def test_a_schedule_is_read_as_it_was_applied(bench):
    bench.apply(timezone="Europe/Berlin", when={"new_tasks": {"at_least": 5}})
    with store.opened(bench.home) as opened:
        [found] = store.all_schedules(opened)
    assert (found.name, found.schedule.timezone, found.folder) == ("weekly", "Europe/Berlin", bench.place)
    assert found.schedule.when.new_tasks.at_least == 5
    assert (found.looked, found.paused, found.cluster) == (MONDAY - timedelta(days=1), False, "")


def test_what_it_has_seen_stays_when_it_is_applied_again(bench):
    bench.apply()
    facts = Facts(frozenset(["b", "a"]), {"file x": "1"}, ("k",))
    with store.opened(bench.home) as opened:
        store.keep_facts(opened, "weekly", facts)
        store.set_paused(opened, "weekly", True, MONDAY)
    found = bench.apply(cron="0 5 * * mon", now=MONDAY)
    assert (found.schedule.cron, found.paused, found.looked) == ("0 5 * * mon", True, MONDAY)
    with store.opened(bench.home) as opened:
        assert store.last_facts(opened, "weekly") == facts


def test_a_schedule_that_has_not_run_has_seen_nothing(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        assert store.last_facts(opened, "weekly") is None


def test_one_that_is_not_there_is_told_with_those_that_are(bench):
    bench.apply()
    with store.opened(bench.home) as opened, pytest.raises(RlftError, match="there are: weekly"):
        store.find(opened, "weakly")


def test_what_cannot_be_used_is_not_stored(bench):
    with pytest.raises(ConfigError):
        store.apply_schedule(bench.home, CONTENT | {"cron": "often"}, bench.place, MONDAY)
    assert not (bench.home.root / "schedules").exists()


def test_reading_makes_nothing(bench):
    with store.opened(bench.home, make=False) as opened:
        assert store.all_schedules(opened) == []
    assert not bench.home.root.exists()


def test_an_error_takes_everything_back(bench):
    bench.apply()

    def fail() -> None:
        with store.opened(bench.home) as opened:
            store.remove(opened, "weekly")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with store.opened(bench.home) as opened:
        assert store.find(opened, "weekly").name == "weekly"


def test_a_store_of_another_version_is_left_alone(bench):
    bench.apply()
    with sqlite3.connect(bench.home.root / "schedules/schedules.db") as database:
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(StorageError, match=r"version 9(.|\n)*apply the schedules again"), store.opened(bench.home):
        pass


def test_a_damaged_store_is_told(bench):
    bench.apply()
    (bench.home.root / "schedules/schedules.db").write_bytes(b"no database" * 500)
    with pytest.raises(StorageError, match=r"schedules\.db: the schedules cannot be read"), store.opened(bench.home):
        pass


def test_one_schedule_that_cannot_be_read_does_not_hide_the_others(bench, caplog):
    bench.apply()
    bench.apply(name="other")
    with store.opened(bench.home) as opened:
        opened.execute("UPDATE schedules SET content = '{}' WHERE name = 'other'")
        assert [each.name for each in store.all_schedules(opened)] == ["weekly"]
    assert "the schedule other, as it was applied" in caplog.text


@pytest.mark.parametrize("column", ["content", "applied", "looked"])
def test_a_row_that_is_damaged_stops_no_other_schedule_and_is_repaired_by_its_file_or_deleted(bench, caplog, column):
    bench.apply()
    bench.apply(name="other")
    with store.opened(bench.home) as opened:
        opened.execute(f"UPDATE schedules SET {column} = '{{half' WHERE name = 'weekly'")
    bench.at(MONDAY)
    assert (bench.states("other"), bench.states()) == (["finished"], [])
    assert "the schedule weekly, as it was applied" in caplog.text
    assert "rlft schedule delete weekly" in caplog.text
    with store.opened(bench.home) as opened, pytest.raises(ConfigError, match="its row is damaged"):
        store.find(opened, "weekly")
    bench.apply(now=MONDAY)
    bench.at(MONDAY + timedelta(days=7))
    assert bench.states() == ["finished"]
    with store.opened(bench.home) as opened:
        opened.execute(f"UPDATE schedules SET {column} = '{{half' WHERE name = 'weekly'")
        assert store.find_or_damaged(opened, "weekly") is None
        store.remove(opened, "weekly")
        assert [each.name for each in store.all_schedules(opened)] == ["other"]


def test_what_is_damaged_of_a_firing_or_of_what_was_seen_stops_nothing(bench, caplog):
    bench.apply()
    bench.apply(name="other")
    [one, two] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        opened.execute("UPDATE firings SET tries = '[[1' WHERE schedule = 'weekly'")
        opened.execute("UPDATE firings SET watcher = 'x y' WHERE schedule = 'other'")
        opened.execute("UPDATE schedules SET facts = '{' WHERE name = 'weekly'")
        assert store.last_facts(opened, "weekly") is None
    assert {one.schedule, two.schedule} == {"weekly", "other"}
    bench.at(MONDAY)
    assert (bench.states("other"), bench.states()) == (["finished"], [])
    assert "of schedule weekly is damaged, and is left out" in caplog.text
    with store.opened(bench.home) as opened:
        forget_damaged(opened, "weekly")
        forget_damaged(opened, "other")
        assert [row["schedule"] for row in opened.execute("SELECT * FROM firings")] == ["other"]


def test_what_is_due_still_is_when_the_same_times_are_applied_again(bench):
    bench.apply()
    again = bench.apply(now=MONDAY + timedelta(days=3), retries={"count": 0})  # nothing looked on Monday
    assert again.looked == MONDAY - timedelta(days=1)
    assert [firing.due for firing in bench.look(MONDAY + timedelta(days=3))] == [MONDAY]
    moved = bench.apply(now=MONDAY + timedelta(days=8), timezone="Europe/Berlin")
    assert moved.looked == MONDAY + timedelta(days=8)


def test_an_empty_file_is_no_empty_store(bench):
    bench.apply()
    store.store_file(bench.home).write_bytes(b"")
    for make in (True, False):
        with pytest.raises(StorageError, match="it holds no schedules") as caught, store.opened(bench.home, make=make):
            pass
        assert "apply the schedules again" in caught.value.fix
    assert store.store_file(bench.home).stat().st_size == 0


def test_two_that_make_the_store_at_once_make_one_and_leave_no_half(bench, monkeypatch):
    bench.home.make()
    real = os.link

    def late(*given):
        monkeypatch.setattr(os, "link", real)
        bench.apply()  # another process was first
        real(*given)

    monkeypatch.setattr(os, "link", late)
    with store.opened(bench.home) as opened:
        assert [each.name for each in store.all_schedules(opened)] == ["weekly"]
    assert [path.name for path in (bench.home.root / "schedules").iterdir()] == ["schedules.db"]


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (sqlite3.OperationalError("database or disk is full"), "make room on its disk"),
        (OSError(errno.ENOSPC, "No space left on device"), "make room on its disk"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "let this user write this file"),
        (sqlite3.OperationalError("unable to open database file"), "let this user write this file"),
        (PermissionError(errno.EACCES, "Permission denied"), "let this user write this file"),
        (sqlite3.OperationalError("database is locked"), "end the process that holds it"),
        (sqlite3.DatabaseError("database disk image is malformed"), "move this file away"),
        (sqlite3.DatabaseError("file is not a database"), "move this file away"),
    ],
)
def test_the_way_out_is_that_of_what_is_wrong(bench, cause, said):
    bench.apply()

    def fail() -> None:
        with store.opened(bench.home):
            raise cause

    with pytest.raises(StorageError) as caught:
        fail()
    assert caught.value.fix.startswith(said)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("weekly.lock", "folder"), ("weekly.env", "pipe"), ("results", "file"), ("logs", "file"), ("logs/a.log", "pipe")],
)
def test_what_is_odd_in_the_folder_is_told_with_the_way_out_and_not_waited_for(bench, name, kind):
    bench.apply()
    place = bench.home.root / "schedules" / name
    place.parent.mkdir(exist_ok=True)
    {"folder": place.mkdir, "pipe": lambda: os.mkfifo(place), "file": place.touch}[kind]()
    with pytest.raises(StorageError, match=f"this is a {kind}, not a (.|\n)*move it away"), store.opened(bench.home):
        pass
    assert place in [Path(problem.where) for problem in find_odd(bench.home)]


def test_what_a_person_keeps_there_is_left_alone(bench):
    bench.apply()
    (bench.home.root / "schedules" / "notes").mkdir()
    with store.opened(bench.home) as opened:
        assert len(store.all_schedules(opened)) == 1


def test_the_folder_is_the_owners_and_belongs_to_the_home(bench):
    bench.apply()
    assert (bench.home.root / "schedules").stat().st_mode & 0o777 == 0o700
    renamed = bench.home.root.rename(bench.place / "archive")
    Home(renamed).make()  # of another name: it is narrowed only if it holds nothing but what rlft puts there
    assert renamed.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["schedules.db", "weekly.lock", "logs", "results", "logs/weekly-1.log"])
@pytest.mark.parametrize("leads", ["somewhere", "nowhere"])
def test_nothing_is_written_through_a_link_of_a_home_from_elsewhere(bench, tmp_path, name, leads):
    bench.apply()
    elsewhere = tmp_path / "elsewhere"
    if leads == "somewhere":
        elsewhere.mkdir() if name in ("logs", "results") else elsewhere.write_text("theirs")
    place = bench.home.root / "schedules" / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(elsewhere)
    with pytest.raises(StorageError, match=r"this is a link, and is not followed(.|\n)*RLFT_HOME"):
        bench.at(MONDAY)
    assert place in [Path(problem.where) for problem in find_odd(bench.home)]
    if leads == "nowhere":
        assert not elsewhere.exists()
    else:
        assert (list(elsewhere.iterdir()) if elsewhere.is_dir() else elsewhere.read_text()) in ([], "theirs")


def test_a_file_in_the_folders_place_is_told(bench):
    bench.home.make()
    (bench.home.root / "schedules").write_text("")
    assert ["which schedules were applied" in str(problem) for problem in find_odd(bench.home)] == [True]

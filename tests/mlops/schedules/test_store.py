"""What is stored of schedules, by several processes and after kills."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from mlops.home.entries import find_odd
from mlops.home.folder import Home
from mlops.schedules import store
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

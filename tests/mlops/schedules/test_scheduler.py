"""What waits for the time: its jobs, and the processes that it starts. For real: tests/e2e/test_schedule.py."""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from mlops.schedules import scheduler, store
from mlops.schedules.scheduler import DueTrigger, Processes, look_once
from mlops.schedules.starting import log_file
from mlops.schedules.watch import carry_out
from mlops.schedules.watching import Watch
from tests.mlops.schedules.conftest import MONDAY, Scripted

WEEK = timedelta(days=7)


def test_the_trigger_of_apscheduler_has_our_due_times(bench):
    trigger = DueTrigger(bench.apply(timezone="Europe/Berlin", cron="30 2 * * *"))
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    first = trigger.get_next_fire_time(None, before)
    assert first == datetime(
        2026, 3, 29, 1, 0, tzinfo=UTC
    )  # 2:30 is skipped, and 3:00 +02:00 is when it has gone forward
    assert trigger.get_next_fire_time(first, first) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    assert trigger.get_next_fire_time(before, first + timedelta(days=3)) > first + timedelta(days=3)


def test_the_jobs_follow_the_store(bench):
    made = BackgroundScheduler(timezone=UTC)
    made.add_job(lambda: None, "interval", seconds=1000, id="look")
    made.start(paused=True)

    def jobs() -> list[str]:
        scheduler._set_jobs(made, lambda: None, bench.home, ())
        return sorted(job.id.split()[0] for job in made.get_jobs())

    assert jobs() == ["look"]
    bench.apply()
    bench.apply(name="other")
    assert jobs() == ["look", "other", "weekly"]
    before = made.get_job(next(job.id for job in made.get_jobs() if job.id.startswith("weekly"))).next_run_time
    bench.apply(cron="0 5 * * tue", now=MONDAY)
    assert jobs() == ["look", "other", "weekly"]
    after = made.get_job(next(job.id for job in made.get_jobs() if job.id.startswith("weekly"))).next_run_time
    assert (before.weekday(), after.weekday()) == (0, 1)
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", True, MONDAY)
        store.set_cluster(opened, "other", "rlft-other")
    assert jobs() == ["look"]
    made.shutdown()


def test_a_firing_has_one_process_and_one_that_fails_is_not_started_again_at_once(bench, monkeypatch):
    bench.apply()
    [firing] = bench.look(MONDAY)
    monkeypatch.setattr(scheduler, "rlft_command", lambda *words: ["sh", "-c", f"echo {words[-1]}; sleep 0.3; exit 1"])
    processes = Processes(bench.home)
    assert processes.begin(firing)
    assert not processes.begin(firing)
    time.sleep(1)
    assert not processes.begin(firing)  # it has ended, a second ago
    assert log_file(bench.home, firing).read_text() == f"{firing.id}\n"
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: time.perf_counter() + 1e6)
    assert processes.begin(firing)


def test_a_look_from_outside_runs_what_is_due_of_the_schedules_that_it_names(bench):
    bench.apply()
    bench.apply(name="other")
    watch = Scripted(bench.home, now=MONDAY)
    assert [firing.schedule for firing in look_once(watch, ["other"])] == ["other"]
    assert bench.states() == []
    assert [firing.schedule for firing in look_once(watch, [])] == ["weekly"]


def test_a_folder_that_is_gone_fails_with_a_sentence(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        opened.execute("UPDATE schedules SET folder = '/nowhere/at/all'")
    [firing] = bench.look(MONDAY)
    said: list[str] = []
    done = carry_out(Watch(bench.home, say=said.append, output=subprocess.DEVNULL), firing.id)
    assert (done.state, done.said) == ("failed", "its set-up cannot work, and would not the next time")
    assert any("nothing can be run in /nowhere/at/all: No such file or directory" in text for text in said)


@pytest.mark.parametrize("cron", ["* * * * *", "0 4 * * mon"])
def test_the_next_due_time_is_found_at_once(bench, cron):
    trigger = DueTrigger(bench.apply(cron=cron, timezone="Europe/Berlin"))
    began = time.process_time()
    assert trigger.get_next_fire_time(None, MONDAY) is not None
    assert time.process_time() - began < 0.5

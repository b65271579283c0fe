"""What waits for the time: its jobs, and when APScheduler starts them. For real: tests/e2e/test_schedule.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mlops.schedules.scheduler import Scheduler
from mlops.schedules.store import Firing, State, keep, keep_state

NOW = datetime.now(UTC).replace(second=0, microsecond=0)


@pytest.fixture
def scheduler(bench):
    made = Scheduler(bench.home)
    made.jobs.start(paused=True)
    yield made
    made.jobs.shutdown()


def times(scheduler):
    scheduler.refresh()
    return {job.args[0]: job.next_run_time for job in scheduler.jobs.get_jobs()}


def test_the_jobs_follow_the_schedules(bench, scheduler):
    assert times(scheduler) == {}
    stored = bench.apply(cron="0 4 * * *", now=NOW)
    other = bench.apply(name="other", now=NOW)
    assert times(scheduler).keys() == {"weekly", "other"}
    assert times(scheduler)["weekly"] == stored.schedule.trigger.get_next_fire_time(None, NOW)
    changed = bench.apply(cron="0 5 * * tue", now=NOW)
    assert times(scheduler)["weekly"] == changed.schedule.trigger.get_next_fire_time(None, NOW)
    keep(bench.home, changed.model_copy(update={"paused": True}))
    keep(bench.home, other.model_copy(update={"cluster": "rlft-other"}))
    assert times(scheduler) == {}


def test_a_job_begins_at_the_last_look_and_many_due_times_are_one_start(bench, scheduler):
    bench.apply(cron="0 * * * *", now=NOW - timedelta(days=2))
    looked = (NOW - timedelta(hours=5)).replace(minute=0)
    keep_state(bench.home, "weekly", State(looked=looked))
    assert times(scheduler)["weekly"] == looked + timedelta(hours=1)
    [job] = scheduler.jobs.get_jobs()
    assert (job.coalesce, job.max_instances, job.misfire_grace_time) == (True, 1, None)


def test_a_run_that_was_left_is_looked_after_at_once(bench, scheduler):
    bench.apply(cron="0 4 1 1 *", now=NOW)
    keep_state(bench.home, "weekly", State(running=Firing(schedule="weekly", due=NOW)))
    assert abs(times(scheduler)["weekly"] - datetime.now(UTC)) < timedelta(minutes=1)


def test_what_goes_on_is_not_started_a_second_time_and_what_was_killed_is(bench, scheduler, monkeypatch):
    begun, codes = [], []

    class Process:
        def __init__(self, command, **_):
            begun.append(command[command.index("cli") + 1 :])
            codes.append(None)

        def poll(self):
            return codes[-1]

    bench.apply(now=NOW)
    monkeypatch.setattr("mlops.schedules.scheduler.subprocess.Popen", Process)
    for code, count in ((None, 1), (None, 1), (0, 2), (None, 2)):
        codes[-1:] = [code]
        scheduler.start("weekly")
        assert len(begun) == count
    codes[-1] = -9
    scheduler.refresh()
    assert begun == [["schedule", "run", "weekly", "--once"]] * 3
    codes[-1] = 1
    scheduler.refresh()
    assert len(begun) == 3

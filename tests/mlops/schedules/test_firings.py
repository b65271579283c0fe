"""Which firings are made when something looks, by a clock of the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

from mlops.schedules import store
from mlops.schedules.firings import KEPT, change, claim_due, firings_of, read_firing, take
from tests.e2e.conftest import ROOT
from tests.mlops.schedules.conftest import MONDAY

HOUR, WEEK = timedelta(hours=1), timedelta(days=7)
LOOKING = """
import sys
from datetime import datetime, timedelta
from pathlib import Path
from mlops.home.folder import Home
from mlops.schedules.scheduler import look
home, now = Home(Path(sys.argv[1])), datetime.fromisoformat(sys.argv[2])
sys.stdin.read(1)
for minute in range(60):
    look(home, now + timedelta(minutes=minute))
"""


def test_each_due_time_has_one_firing_however_often_something_looks(bench):
    bench.apply()
    assert bench.look(MONDAY - HOUR) == []
    for minutes in (0, 1, 2):
        assert [firing.due for firing in bench.look(MONDAY + timedelta(minutes=minutes))] == [MONDAY]
    assert bench.states() == ["due"]


def test_four_schedulers_that_look_at_once_make_one_firing_of_each_due_time(bench):
    bench.apply(cron="* * * * *", now=MONDAY - timedelta(minutes=1))
    given = [sys.executable, "-c", LOOKING, str(bench.home.root), MONDAY.isoformat()]
    looking = [subprocess.Popen(given, cwd=ROOT, stdin=subprocess.PIPE) for _ in range(4)]
    for each in looking:
        each.stdin.close()  # all of them begin now
    assert [each.wait() for each in looking] == [0] * 4
    due = [firing.due for firing in bench.firings()]
    assert len(set(due)) == len(due)
    # A look that comes first with a later minute stands for the earlier ones, so that there may be fewer than 60.
    assert due == sorted(due)
    assert due[-1] == MONDAY + timedelta(minutes=59)


def test_what_was_missed_is_one_firing(bench):
    bench.apply(now=MONDAY - 3 * WEEK)
    bench.look(MONDAY + 2 * HOUR)
    [firing] = bench.firings()
    # of 3 weeks ago nothing is due, as it was applied at that moment; 2 weeks and 1 week ago and now are
    assert (firing.due, firing.said) == (
        MONDAY,
        "nothing looked at 2 due times before this one, for which it stands, too",
    )


def test_what_was_missed_is_listed_where_none_is_made_for_it(bench):
    bench.apply(missed="skip")
    assert bench.look(MONDAY + 2 * HOUR) == []
    [firing] = bench.firings()
    assert (firing.state, firing.is_over) == ("missed", True)
    assert firing.said == "nothing looked at 1 due time, which `missed: skip` leaves out"


def test_what_is_due_while_it_is_paused_is_left_out(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", True, MONDAY - HOUR)
    assert bench.look(MONDAY + HOUR) == []
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", False, MONDAY + 2 * HOUR)
    assert bench.look(MONDAY + 3 * HOUR) == []
    assert [firing.due for firing in bench.look(MONDAY + WEEK)] == [MONDAY + WEEK]


def test_a_pause_in_which_nothing_looked_leaves_its_due_times_out_too(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", True, MONDAY - HOUR)
        store.set_paused(opened, "weekly", False, MONDAY + HOUR)
    assert bench.look(MONDAY + 2 * HOUR) == []


def test_a_clock_that_is_set_back_makes_no_second_firing(bench):
    bench.apply()
    bench.look(MONDAY + HOUR)
    assert len(bench.look(MONDAY - HOUR)) == len(bench.look(MONDAY)) == 1
    assert len(bench.firings()) == 1


def test_a_clock_that_was_ahead_once_stops_no_schedule(bench, caplog):
    bench.apply()
    bench.look(MONDAY + 52 * WEEK)  # which makes a firing of that time
    assert [firing.due for firing in bench.look(MONDAY)][1:] == [MONDAY]
    assert "weekly was looked at when the clock said 2027-11-22 04:00 UTC" in caplog.text
    assert [firing.due for firing in bench.look(MONDAY + WEEK)][2:] == [MONDAY + WEEK]


def test_a_look_of_another_process_that_is_a_little_later_counts(bench, caplog):
    bench.apply()
    bench.look(MONDAY + timedelta(minutes=1))
    bench.look(MONDAY + timedelta(seconds=30))  # read before, and it had to wait for the store
    assert (bench.states(), "when the clock said" in caplog.text) == (["due"], False)
    with store.opened(bench.home) as opened:
        assert store.find(opened, "weekly").looked == MONDAY + timedelta(minutes=1)


def test_what_a_cluster_keeps_is_not_due_here(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        store.set_cluster(opened, "weekly", "rlft-weekly")
    assert bench.look(MONDAY) == []


def test_a_firing_is_looked_after_by_one_process(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        began = json.loads(
            subprocess.check_output(
                [sys.executable, "-c", f"import psutil; print(psutil.Process({other.pid}).create_time())"]
            )
        )
        with store.opened(bench.home) as opened:
            change(opened, firing.id, watcher=f"{other.pid} {began}")
            assert take(opened, firing.id) is None
        assert bench.look(MONDAY) == []
        other.stdin.close()
        other.wait()
    assert [each.id for each in bench.look(MONDAY)] == [firing.id]
    with store.opened(bench.home) as opened:
        assert take(opened, firing.id).is_watched
        assert take(opened, firing.id) is not None  # by this very process again
        change(opened, firing.id, ended=MONDAY)
        assert take(opened, firing.id) is None


def test_old_firings_are_forgotten_but_for_those_that_go_on(bench):
    stored = bench.apply(cron="* * * * *")
    with store.opened(bench.home) as opened:
        for minute in range(KEPT + 5):
            moment = MONDAY + timedelta(minutes=minute)
            firing = claim_due(opened, store.find(opened, stored.name), moment)
            assert firing is not None
            if minute:
                change(opened, firing.id, state="no_reason", ended=moment)
        found = firings_of(opened, "weekly")
        assert read_firing(opened, 1).state == "due"
    assert KEPT <= len(found) <= KEPT + 2

"""Which due times a run is begun for, by a clock of the test's own."""

from datetime import UTC, datetime, timedelta

import pytest

from rlft.schedule.due import Due, find_due
from rlft.schedule.settings import ScheduleConfig

MONDAY = datetime(2026, 11, 23, 4, tzinfo=UTC)
WEEK = timedelta(days=7)


def weekly(**settings) -> ScheduleConfig:
    return ScheduleConfig(**{"name": "weekly", "config": "a.yaml", "cron": "0 4 * * mon"} | settings)


def test_nothing_is_due_before_its_time():
    assert find_due(weekly(), MONDAY - WEEK, MONDAY - timedelta(seconds=1)) is None


def test_at_its_time_it_is_due_once():
    assert find_due(weekly(), MONDAY - timedelta(hours=1), MONDAY) == Due(MONDAY, "run", 0)
    assert find_due(weekly(), MONDAY, MONDAY + timedelta(hours=1)) is None


@pytest.mark.parametrize(("minutes", "verdict"), [(10, "run"), (11, "missed")])
def test_it_is_missed_when_it_is_later_than_the_grace(minutes, verdict):
    found = find_due(weekly(missed="skip"), MONDAY - WEEK, MONDAY + timedelta(minutes=minutes))
    assert found == Due(MONDAY, verdict, 0)


def test_one_run_stands_for_all_that_were_missed():
    found = find_due(weekly(), MONDAY - 3 * WEEK, MONDAY + timedelta(days=2))
    # two weeks and one week before Monday, and Monday itself
    assert found == Due(MONDAY, "run", 2)
    assert found.sentence == "nothing looked at 2 due times before this one, for which it stands, too"


def test_none_is_made_for_them_where_missed_says_skip():
    found = find_due(weekly(missed="skip"), MONDAY - 3 * WEEK, MONDAY + timedelta(days=2))
    assert found == Due(MONDAY, "missed", 2)
    assert found.sentence == "nothing looked at 3 due times, which `missed: skip` leaves out"


def test_a_run_in_time_stands_for_those_that_were_missed_before():
    found = find_due(weekly(missed="skip"), MONDAY - 2 * WEEK, MONDAY)
    assert found == Due(MONDAY, "run", 1)


def test_of_very_many_at_least_those_of_a_day_are_counted():
    found = find_due(weekly(cron="* * * * *"), MONDAY - 3 * WEEK, MONDAY)
    assert found == Due(MONDAY, "run", 24 * 60 - 1, is_least=True)
    assert "at least 1439 due times" in found.sentence


def test_a_rare_one_is_found_after_a_year():
    found = find_due(weekly(cron="0 4 1 1 *"), datetime(2024, 12, 1, tzinfo=UTC), MONDAY)
    assert found == Due(datetime(2026, 1, 1, 4, tzinfo=UTC), "run", 1)


def test_a_clock_that_was_set_back_makes_nothing_due():
    assert find_due(weekly(), MONDAY, MONDAY - WEEK) is None

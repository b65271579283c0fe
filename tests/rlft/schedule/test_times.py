"""Due times in time zones, on ordinary days and on those on which clocks are changed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.schedule.cron import read_cron
from rlft.schedule.times import due_times, next_due

BERLIN = ZoneInfo("Europe/Berlin")


def between(cron, after, until, zone=BERLIN):
    """Due times as a clock of the zone shows them, with its offset."""
    found = due_times(read_cron(cron), zone, after.replace(tzinfo=zone), until.replace(tzinfo=zone))
    return [f"{moment.astimezone(zone):%d %H:%M %z}" for moment in found]


def test_an_ordinary_week():
    assert between("0 4 * * mon,thu", datetime(2026, 11, 22), datetime(2026, 11, 30, 4)) == [
        "23 04:00 +0100",
        "26 04:00 +0100",
        "30 04:00 +0100",  # the end belongs to it
    ]


def test_the_beginning_does_not_belong_to_it():
    assert between("0 4 * * *", datetime(2026, 11, 23, 4), datetime(2026, 11, 24, 4)) == ["24 04:00 +0100"]


# Berlin, 29 March 2026: 2:00 +01:00 becomes 3:00 +02:00.
def test_a_time_that_the_clock_skips_is_due_when_it_has_gone_forward():
    assert between("30 2 * * *", datetime(2026, 3, 28), datetime(2026, 3, 31)) == [
        "28 02:30 +0100",
        "29 03:00 +0200",
        "30 02:30 +0200",
    ]


def test_two_due_times_that_fall_together_then_are_one():
    assert between("0,30 2,3 * * *", datetime(2026, 3, 29), datetime(2026, 3, 30)) == [
        "29 03:00 +0200",
        "29 03:30 +0200",
    ]


def test_what_is_due_in_every_hour_is_not_due_in_a_skipped_one():
    assert between("30 * * * *", datetime(2026, 3, 29, 1), datetime(2026, 3, 29, 4)) == [
        "29 01:30 +0100",
        "29 03:30 +0200",
    ]


# Berlin, 25 October 2026: 3:00 +02:00 becomes 2:00 +01:00.
def test_a_time_that_comes_twice_is_due_once():
    assert between("30 2 * * *", datetime(2026, 10, 24), datetime(2026, 10, 27)) == [
        "24 02:30 +0200",
        "25 02:30 +0200",
        "26 02:30 +0100",
    ]


def test_what_is_due_in_every_hour_is_due_in_both():
    assert between("0,30 * * * *", datetime(2026, 10, 25, 1, 45), datetime(2026, 10, 25, 3)) == [
        "25 02:00 +0200",
        "25 02:30 +0200",
        "25 02:00 +0100",
        "25 02:30 +0100",
        "25 03:00 +0100",
    ]


def test_one_who_looks_between_the_two_finds_the_second():
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 2:30 +02:00
    assert next_due(read_cron("30 * * * *"), BERLIN, first) == first + timedelta(hours=1)
    assert next_due(read_cron("30 2 * * *"), BERLIN, first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


# Lord Howe Island sets its clock by half an hour: 4 October 2026, 2:00 +10:30 becomes 2:30 +11:00.
def test_a_clock_that_is_set_by_half_an_hour():
    zone = ZoneInfo("Australia/Lord_Howe")
    assert between("15 2 * * *", datetime(2026, 10, 3, 12), datetime(2026, 10, 5), zone) == ["04 02:30 +1100"]


# Samoa had no 30 December 2011: the clock went from 29 December 24:00 to 31 December 0:00.
def test_a_day_that_a_zone_skips():
    zone = ZoneInfo("Pacific/Apia")
    assert between("0 12 30 12 *", datetime(2011, 12, 28), datetime(2012, 1, 2), zone) == ["31 00:00 +1400"]


def test_february_29_comes_in_2028():
    found = next_due(read_cron("0 4 29 2 *"), ZoneInfo("UTC"), datetime(2026, 11, 26, tzinfo=UTC))
    assert found == datetime(2028, 2, 29, 4, tzinfo=UTC)


@settings(max_examples=60, deadline=None)
@given(
    st.datetimes(datetime(2026, 3, 27), datetime(2026, 3, 31))
    | st.datetimes(datetime(2026, 10, 23), datetime(2026, 10, 27)),
    st.sampled_from(["30 2 * * *", "*/30 * * * *", "0 */2 * * *", "15 1,2,3 * * *", "0 3 * * sun"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_the_next_due_time_is_the_first_of_all(start, cron, name):
    after, fields, zone = start.replace(tzinfo=UTC), read_cron(cron), ZoneInfo(name)
    found = next_due(fields, zone, after)
    assert found is not None
    assert due_times(fields, zone, after, found) == [found]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "17 */3 * * *"])
def test_every_day_of_a_year_has_as_many_due_times_as_any_other(cron, zone):
    fields, zone = read_cron(cron), ZoneInfo(zone)
    found = due_times(fields, zone, datetime(2026, 1, 1, tzinfo=zone), datetime(2027, 1, 1, tzinfo=zone))
    assert len(found) == 365 * len(fields.hours)

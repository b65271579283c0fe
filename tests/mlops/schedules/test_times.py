"""When a schedule is due, by APScheduler's trigger and the calendar."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mlops.schedules.times import due_trigger, newest_due

BERLIN = ZoneInfo("Europe/Berlin")


def due(cron, after, until, zone=BERLIN):
    """Due times in (after, until) as a clock of the zone shows them, with its offset."""
    trigger, last, found = due_trigger(cron, zone), after.replace(tzinfo=zone), []
    while (last := trigger.get_next_fire_time(last, last)) < until.replace(tzinfo=zone):
        found.append(f"{last:%a %d %H:%M %z}")
    return found


@pytest.mark.parametrize(
    ("field", "days"),
    [
        # 22 November 2026 is a Sunday.
        ("sun", "Sun"), ("SUN", "Sun"), ("mon-fri", "Mon Tue Wed Thu Fri"), ("fri-sun", "Sun Fri Sat"),
        ("sun,wed", "Sun Wed"),
        ("*", "Sun Mon Tue Wed Thu Fri Sat"),
    ],
)  # fmt: skip
def test_days_of_the_week_are_those_of_cron(field, days):
    found = due(f"0 4 * * {field}", datetime(2026, 11, 22), datetime(2026, 11, 29))
    assert " ".join(each[:3] for each in found) == days


def test_the_other_fields_are_those_of_cron():
    found = due("*/30 8-16/8 1,15 jan-feb *", datetime(2026, 1, 2), datetime(2026, 2, 2))
    assert found == [f"{day} {hour}:{minute} +0100" for day in ("Thu 15", "Sun 01") for hour in ("08", "16")
                     for minute in ("00", "30")]  # fmt: skip


@pytest.mark.parametrize(
    "cron",
    ["0 4 * *", "60 4 * * *", "0 4 0 * *", "0 4 * * 1", "0 4 * foo *", "0 4 * * */2", "0 4 * * fri-mon", "*/0 4 * * *",
     "5-1 4 * * *", "0 4 1 * mon", "0 4 30 2 *", "@reboot", "", "0 4 * * ٣"],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(cron):
    with pytest.raises(ValueError, match=r"."):
        due_trigger(cron, UTC)


def test_a_time_that_the_clock_skips_is_due_an_hour_later():
    # Berlin, 29 March 2026: 2:00 +01:00 becomes 3:00 +02:00. 2:30 +01:00 is 1:30 UTC, and 2:30 +02:00 is 0:30.
    trigger, found, hours = due_trigger("30 2 * * *", BERLIN), datetime(2026, 3, 28, tzinfo=UTC), []
    for _ in range(3):
        found = trigger.get_next_fire_time(found, found)
        hours.append(f"{found.astimezone(UTC):%d %H:%M}")
    assert hours == ["28 01:30", "29 01:30", "30 00:30"]


def test_a_time_that_the_clock_shows_twice_is_due_twice():
    # Berlin, 25 October 2026: 3:00 +02:00 becomes 2:00 +01:00.
    assert due("30 2 * * *", datetime(2026, 10, 25), datetime(2026, 10, 27)) == [
        "Sun 25 02:30 +0200", "Sun 25 02:30 +0100", "Mon 26 02:30 +0100"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cron", "after", "found"),
    [
        ("0 4 * * *", (28, 4), None),  # `after` does not belong to it
        ("0 4 * * *", (27, 4), (28, 4)),
        ("0 4 * * mon", (1, 4), (23, 4)),  # the newest of several
        ("* * * * *", (1, 4), (29, 3, 59)),
    ],
)
def test_the_newest_due_time_stands_for_all(cron, after, found):
    now = datetime(2026, 11, 29, 3, 59, 30, tzinfo=UTC)
    wanted = found and datetime(2026, 11, *found, tzinfo=UTC)
    assert newest_due(due_trigger(cron, UTC), datetime(2026, 11, *after, tzinfo=UTC), now) == wanted


def test_now_belongs_to_it():
    now = datetime(2026, 11, 23, 4, tzinfo=UTC)
    assert newest_due(due_trigger("0 4 * * mon", UTC), now - timedelta(days=3), now) == now

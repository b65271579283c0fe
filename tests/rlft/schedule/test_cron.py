"""Cron expressions as sets of numbers, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.schedule.cron import read_cron


def test_the_fields_are_what_cron_makes_of_them():
    found = read_cron("*/20 8-16/4 1,15 jan-mar *")
    assert found.minutes == (0, 20, 40)
    assert found.hours == (8, 12, 16)
    assert (found.days, found.months) == ((1, 15), (1, 2, 3))
    assert found.is_any_weekday
    assert not found.is_any_day
    assert not found.is_every_hour


@pytest.mark.parametrize("text", ["0 4 * * 0", "0 4 * * 7", "0 4 * * sun", "0 4 * * SUN"])
def test_sunday_is_0_and_7_as_to_cron(text):
    assert read_cron(text).weekdays == (0,)


def test_5_to_7_is_friday_to_sunday():
    assert read_cron("0 4 * * 5-7").weekdays == (0, 5, 6)


def test_every_hour_may_be_written_in_several_ways():
    assert all(read_cron(text).is_every_hour for text in ("5 * * * *", "5 */1 * * *", "5 0-23 * * *", "@hourly"))
    assert not read_cron("5 */2 * * *").is_every_hour


def test_the_short_names_are_those_of_cron():
    assert read_cron("@weekly") == read_cron("0 0 * * sun")
    assert read_cron("@monthly") == read_cron("0 0 1 * *")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 4 * *", "has 4 fields, and cron five"),
        ("60 4 * * *", "minute: '60' is not 0 to 59"),
        ("0 4 0 * *", "day of the month: '0' is not 1 to 31"),
        ("0 4 * * 8", "day of the week: '8' is not 0 to 7 or sun to sat"),
        ("0 4 * foo *", "month: 'foo' is not 1 to 12 or jan to dec"),
        ("0 4 * * fri-mon", "allows nothing; write the smaller number first"),
        ("*/0 4 * * *", "allows nothing"),
        ("4/2 4 * * *", "'4/2' cannot be read"),
        ("0 4 1 * mon", "make two schedules"),
        ("0 4 31 2,4 *", "never due: no such month has a day 31"),
        ("٣ 4 * * *", "minute: '٣' is not 0 to 59"),
        ("@reboot", "has 1 fields"),
    ],
)
def test_what_cannot_be_used_is_told(text, said):
    with pytest.raises(ValueError, match=r".") as raised:
        read_cron(text)
    assert said in str(raised.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_cron(text)
    except ValueError:
        return
    assert all((found.minutes, found.hours, found.days, found.months, found.weekdays))


@given(st.sets(st.integers(0, 59), min_size=1), st.sets(st.integers(0, 23), min_size=1))
def test_lists_are_what_they_list(minutes, hours):
    found = read_cron(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *")
    assert (found.minutes, found.hours) == (tuple(sorted(minutes)), tuple(sorted(hours)))

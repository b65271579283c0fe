"""Dates in the notations of people."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.numbers import read_date

DAY = date(2014, 3, 3)


@pytest.mark.parametrize(
    "text",
    [
        "2014-03-03",
        "3 March 2014",
        "March 3rd, 2014",
        "Mon, 3 Mar 2014 10:00",
        "20140303",
        "3/3/2014.",
        " 3.3.2014",
        "2014年3月3日",
        "2014년 3월 3일",
        "２０１４年３月３日。",
        "2014年03月03號",
    ],
)
def test_one_day_in_many_notations(text):
    assert read_date(text) == DAY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "March 2014",
        "2014",
        "3 March",
        "1",
        "2014-02-30",
        "03/04/2014",
        "nan",
        "9" * 14,
        "1e400",
        "3 March 2014 " * 9,
        "2014年13月3日",
        "3. März 2014",
    ],
)
def test_what_is_not_one_whole_day_is_none(text):
    assert read_date(text) is None


def test_the_order_of_day_and_month_is_what_is_said():
    assert read_date("03/04/2014", "day_first") == date(2014, 4, 3)
    assert read_date("03/04/2014", "month_first") == date(2014, 3, 4)
    assert read_date("13/04/2014") == date(2014, 4, 13)  # there is no thirteenth month


@pytest.mark.parametrize("order", [None, "day_first", "month_first"])
@pytest.mark.parametrize(
    "text",
    ["2014-03-04", "2014/03/04", "2014.3.4", "20140304", "2014-03-04T00:00:00", "2014-03-04 23:59:59.123456+02:00",
     "2014-03-04t10:00Z"],
)  # fmt: skip
def test_after_a_year_comes_the_month_whatever_the_order(text, order):
    assert read_date(text, order) == date(2014, 3, 4)


@pytest.mark.parametrize("text", ["2014-13-04", "2014/03-04", "2014111", "2014-03-04 and more", "2014-03-04T25"])
def test_what_begins_with_a_year_and_goes_on_otherwise_is_none(text):
    assert read_date(text, "day_first") is None


@given(st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1)))
def test_every_day_is_read_as_it_was_written(day):
    assert read_date(day.isoformat()) == read_date(f"{day:%d %B %Y}") == day
    assert read_date((day + timedelta(1)).isoformat()) != day


@given(st.text(max_size=80))
def test_no_text_raises(text):
    assert read_date(text) is None or isinstance(read_date(text), date)

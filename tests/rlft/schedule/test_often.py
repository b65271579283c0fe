"""rlft.schedule.often: how often a schedule is due, in the mean."""

import pytest

from rlft.schedule.cron import read_cron
from rlft.schedule.often import MONTH, WEEK, due_per_day


@pytest.mark.parametrize(
    ("cron", "days", "due"),
    [
        ("0 4 * * *", WEEK, 7),
        ("0 4 * * mon", WEEK, 1),
        ("0 4 * * 0,7", WEEK, 1),  # both are Sunday
        ("*/15 * * * *", 1, 96),  # four an hour
        ("0 0 1 * *", MONTH, 1),
        ("0 0 29 feb *", 1461, 1),  # once in four years
        ("0 0,12 31 * *", 1461, 2 * 7 * 4),  # seven months have a day 31
    ],
)
def test_due_times_are_counted_over_whole_years(cron, days, due):
    assert due_per_day(read_cron(cron)) * days == pytest.approx(due)

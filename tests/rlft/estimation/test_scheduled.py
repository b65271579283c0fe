"""rlft.estimation.scheduled: what the runs of a schedule take by week and by month."""

import pytest

from rlft.estimation.estimate import Estimate
from rlft.estimation.room import Room
from rlft.estimation.scheduled import as_json, caveats_of, periods_of
from rlft.estimation.span import Span, exactly
from rlft.schedule.settings import ScheduleConfig

HOUR = 3600.0


def an_estimate(low=HOUR, high=2 * HOUR, gpus=2):
    room = Room("fits", Span(), 0, on_gpu=False)
    return Estimate((), Span(low, high), exactly(4), Span(100, 200), exactly(50), room, gpus, (), ())


def a_schedule(**changes):
    return ScheduleConfig.model_validate({"name": "s", "config": "c.yaml", "cron": "0 4,16 * * *", **changes})


def test_a_week_and_a_month_of_a_schedule():
    week, month = periods_of(a_schedule(), an_estimate())
    # two a day: 14 a week, and twice the 30.4375 days of a mean month
    assert (week.name, week.due, week.runs) == ("week", 14, exactly(14))
    assert week.seconds == Span(14 * HOUR, 28 * HOUR)
    assert week.tokens == Span(14 * 150, 14 * 250)
    assert week.gpu_hours == Span(28, 56)  # on two GPUs
    assert month.due == pytest.approx(60.875)
    assert month.seconds.high == pytest.approx(60.875 * 2 * HOUR)


def test_runs_of_a_schedule_with_reasons_may_be_none():
    schedule = a_schedule(when={"new_tasks": {"at_least": 5}})
    week, _ = periods_of(schedule, an_estimate())
    assert (week.runs, week.seconds) == (Span(0, 14), Span(0, 28 * HOUR))
    assert "only for a reason (new_tasks)" in caveats_of(schedule, an_estimate())[0]


def test_runs_that_last_longer_than_the_time_between_have_room_one_after_the_other():
    week, _ = periods_of(a_schedule(), an_estimate(low=6 * HOUR, high=24 * HOUR))
    # a week has room for 7 runs of a day, and for all 14 of six hours
    assert week.runs == Span(7, 14)
    assert week.seconds == Span(42 * HOUR, 168 * HOUR)
    said = caveats_of(a_schedule(), an_estimate(low=6 * HOUR, high=24 * HOUR))[0]
    assert said.endswith("those that come meanwhile are left out.")
    assert caveats_of(a_schedule(retries={"count": 0}), an_estimate(high=11 * HOUR)) == []


def test_the_json_has_a_price_where_there_is_one():
    found = as_json(a_schedule(stack="gpu"), an_estimate(), 3.0)
    assert found["week"]["cost"] == {"low": pytest.approx(42), "high": pytest.approx(84)}
    assert found["week"]["due"] == 14
    assert [text for text in found["caveats"] if "on the stack gpu" in text]
    assert as_json(a_schedule(), an_estimate(), None)["month"]["cost"] is None

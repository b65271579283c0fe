"""The settings of a schedule, and what is said of those that cannot be used."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mlops.schedules.settings import check_schedule, due_trigger, load_schedule, newest_due, overrides_of
from rlft.config.file import load_config
from rlft.errors import ConfigError
from tests.e2e.conftest import ROOT, TINY

LEAST = {"name": "weekly", "config": "configs/demo.yaml", "cron": "0 4 * * mon"}


def test_three_settings_are_enough():
    found = check_schedule(LEAST, where="w")
    assert found.when.is_always
    assert (found.timezone.key, found.retries.count) == ("UTC", 2)
    assert found.notify.events == ["improved", "promoted", "waiting_for_approval", "failed"]
    assert overrides_of(found) == []


@pytest.mark.parametrize("written", ["new_tasks", {"new_tasks": None}, {"new_tasks": {}}])
def test_new_tasks_may_be_written_in_short(written):
    found = check_schedule({**LEAST, "when": written}, where="w")
    assert found.when.new_tasks is not None
    assert found.when.new_tasks.at_least == 1


def test_budget_and_promotion_are_those_of_the_config_but_for_what_is_set():
    content = {**LEAST, "budget": {"minutes": 30}, "promotion": {"suites": {"off_distribution": {"margin": 0.1}}}}
    changes = overrides_of(check_schedule(content, where="w"))
    config = load_config(TINY, ["budget.tokens=7", "budget.minutes=5", *changes])
    assert (config.budget.minutes, config.budget.tokens) == (30, 7)
    assert config.promotion.suites["off_distribution"].margin == 0.1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cron": "0 25 * * *"}, "cron: "),
        ({"timezone": "Berlin"}, "timezone: invalid timezone: Berlin"),
        ({"timezone": "../../etc/passwd"}, "timezone: invalid timezone"),
        ({"when": "sometimes"}, "when: 'sometimes' is no reason; write always, or some of new_tasks"),
        ({"when": {}}, "when: {} is no reason"),
        ({"when": {"new_task": {}}}, "when.new_task: unknown setting; did you mean when.new_tasks?"),
        ({"when": {"changed": {}}}, "when.changed: it names nothing; give files or aliases"),
        ({"when": {"changed": {"aliases": ["base@x"]}}}, "'base@x' names no alias; write models:/NAME@ALIAS"),
        ({"when": {"changed": {"aliases": ["models:/base/3"]}}}, "names no alias"),
        ({"when": {"score_below": {"suite": "s.yaml"}}}, "when.score_below.bound: it is missing"),
        ({"retries": {"count": -1}}, "retries.count"),
        ({"notify": {"events": ["improve"]}}, "notify.events.0: Input should be 'improved', 'promoted'"),
        ({"notify": {"webhook": "http://a.example/x"}}, "put it into an environment variable and write env:NAME"),
        ({"notify": {"webhook": "https://hooks.slack.com/services/T0/B0/abcdef"}}, "looks like a secret"),
        ({"name": "a/b"}, "is no name"),
        ({"name": "a" * 61}, "name: String should have at most 60 characters"),
        ({"crom": "0 4 * * *"}, "crom: unknown setting; did you mean cron?"),
        ({"promotion": {"look": 3}}, "did you mean promotion.looks?"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(change, said):
    with pytest.raises(ConfigError) as raised:
        check_schedule({**LEAST, **change}, where="weekly.yaml")
    assert said in str(raised.value)
    assert "docs/guide/schedules.md" in raised.value.fix
    assert "abcdef" not in str(raised.value)


def test_the_shipped_schedule_can_be_read():
    schedule, _ = load_schedule(ROOT / "configs/schedules/weekly.yaml")
    assert (schedule.name, schedule.timezone.key) == ("weekly", "Europe/Berlin")


def test_a_file_that_is_not_there_is_told_with_an_example(tmp_path):
    with pytest.raises(ConfigError, match=r"no such file(.|\n)*configs/schedules/weekly.yaml"):
        load_schedule(tmp_path / "absent.yaml")


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

"""The settings of a schedule, and what is said of those that cannot be used."""

import pytest

from mlops.schedules.settings import check_schedule, load_schedule, overrides_of
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

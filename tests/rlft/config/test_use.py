"""The section `tasks.use`: which settings go together, and the period that they name."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from rlft.config import UseConfig
from rlft.config.file import check_config
from rlft.errors import ConfigError
from tests.rlft.test_config import content

TRACES = {"experiment": "small-served"}
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"days": 7.0}, "experiment"),
        (TRACES | {"strata_values": ["sea"]}, "name it in `strata`"),
        (TRACES | {"gold": "none", "approval": "correct"}, "set gold to optional"),
        (TRACES | {"days": 7.0, "since": "2026-11-01"}, "`days` is a period of its own"),
        (TRACES | {"since": "last week"}, "'last week' is no time; write 2026-11-01"),
        (TRACES | {"since": "2026-11-02", "until": "2026-11-01"}, "nothing is between them"),
        (TRACES | {"max_share": 0.0}, "greater than 0"),
        (TRACES | {"max_share": 1.0}, "less than or equal to 0.9"),
        (TRACES | {"validation_share": 0.6}, "less than or equal to 0.5"),
        (TRACES | {"mask": ["NAME"]}, "'EMAIL_ADDRESS', 'PHONE_NUMBER'"),
        (TRACES | {"most": 0}, "greater than or equal to 1"),
        (TRACES | {"split": "gate"}, "unknown setting"),
    ],
)
def test_what_cannot_be_is_refused(settings, said):
    with pytest.raises(ConfigError) as caught:
        check_config(content(tasks__use=settings), where="try.yaml")
    assert "tasks.use" in caught.value.what
    assert said in caught.value.what


def test_a_suite_takes_no_tasks_from_use():
    scenario = {"tasks": {"source": "jsonl", "path": "a.jsonl", "use": TRACES}}
    with pytest.raises(ConfigError, match=r"suite\.scenarios\.x: .*models are compared on no tasks from use"):
        check_config(content(suite={"scenarios": {"x": scenario}}), where="try.yaml")


def test_a_period_is_in_utc_unless_it_says_otherwise_and_the_end_is_left_out():
    given = UseConfig.model_validate(TRACES | {"since": "2026-11-01", "until": "2026-11-02T01:00:00+01:00"})
    assert given.period(NOW) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))
    assert UseConfig.model_validate(TRACES).period(NOW) == (None, None)


def test_days_are_counted_back_from_now():
    assert UseConfig.model_validate(TRACES | {"days": 1.5}).period(NOW) == (datetime(2026, 11, 19, tzinfo=UTC), None)


def test_it_comes_back_as_it_was_from_the_json_of_a_run():
    given = UseConfig.model_validate(TRACES | {"feedback": {"a": True, "b": 1, "c": 0.5, "d": "x"}, "mask": []})
    back = UseConfig.model_validate(json.loads(given.model_dump_json()))
    assert back == given
    assert [type(value) for value in back.feedback.values()] == [bool, int, float, str]


def test_a_time_of_yaml_is_refused_with_what_to_do():
    with pytest.raises(ConfigError, match="put it in quotes"):
        check_config(content(tasks__use=TRACES | {"since": datetime(2026, 11, 1)}), where="try.yaml")
    with pytest.raises(ValidationError):
        UseConfig.model_validate(TRACES | {"since": datetime(2026, 11, 1)})

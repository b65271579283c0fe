"""The section `tasks.use`."""

from __future__ import annotations

import json

import pytest

from rlft.config import UseConfig
from rlft.config.file import check_config
from rlft.errors import ConfigError
from tests.rlft.test_config import content

TRACES = {"experiment": "small-served"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"days": 7.0}, "experiment"),
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


def test_it_comes_back_as_it_was_from_the_json_of_a_run():
    given = UseConfig.model_validate(TRACES | {"feedback": {"a": True, "b": 1, "c": 0.5, "d": "x"}, "mask": []})
    back = UseConfig.model_validate(json.loads(given.model_dump_json()))
    assert back == given
    assert [type(value) for value in back.feedback.values()] == [bool, int, float, str]

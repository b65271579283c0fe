"""pipelines.scenarios: what a suite asks of its tasks before any is attempted."""

from __future__ import annotations

import pytest

from pipelines.scenarios import check_slices
from rlft.config import SuiteConfig
from rlft.errors import ConfigError
from tests.factories import make_task, make_task_set
from tests.pipelines.test_caveats import Held

TASKS = Held(
    make_task_set(
        make_task("a", split="test", info={"letters": 3}),
        make_task("b", split="test", info={"level": 1}),
        make_task("c", split="train", info={"year": 1}),
    )
)


def sliced(*columns):
    source = {"source": "jsonl", "path": "t.jsonl", "prompt": "q"}
    scenario = {"tasks": source, "environment": {"name": "e.py:E"}, "slices": list(columns)}
    return SuiteConfig.model_validate({"name": "s", "scenarios": {"held_out": scenario}})


def test_a_column_of_slices_that_no_task_of_the_splits_has_is_refused_with_the_scenario():
    check_slices(sliced("letters", "level"), {"held_out": TASKS})  # some task has each
    check_slices(sliced("environment"), {"held_out": TASKS})  # which every task has
    for column in ("lettres", "year"):  # misspelt, and of train tasks alone
        with pytest.raises(ConfigError, match=f"no task of its splits has the column '{column}'") as told:
            check_slices(sliced("level", column), {"held_out": TASKS})
        assert told.value.where == "scenarios.held_out.slices"
        assert told.value.fix == "name some of these: letters, level"


def test_slices_of_tasks_without_columns_are_to_be_left_out():
    bare = Held(make_task_set(make_task("a", split="test")))
    with pytest.raises(ConfigError) as told:
        check_slices(sliced("level"), {"held_out": bare})
    assert told.value.fix == "leave slices out: no task has columns"

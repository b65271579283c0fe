"""Columns that a specification names are looked for in the rows of all tasks that are asked for them."""

from __future__ import annotations

import pytest

from rlft.errors import TaskError
from rlft.rewards.specification.model import Specification
from rlft.rewards.specification.scoring import check_columns
from tests.rlft.attempts import make_task

TASKS = [
    make_task("a", "?", "Lima", kind="city", item={"name": "x", "parts": [1, 2]}, hint="near the sea"),
    make_task("b", "?", "7", kind="number", item={"name": "y", "parts": [1]}),
]


def specification(grader, **more):
    criterion = {"says": "So.", "grader": grader, **more}
    return Specification.model_validate({"criteria": {"it": criterion, "all": {"says": "All.", "grader": SHORT}}})


SHORT = {"type": "length", "at_most": 9}


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ({"type": "exact", "gold": "{{item.knd}}"},
         "{{item.knd}} is not in the rows of 2 of 2 tasks; did you mean {{item.kind}}?"),
        ({"type": "exact", "any_of": ["{{item.kind}}", "{{item.hint}}"]}, "{{item.hint}} is not in the rows of 1 of 2"),
        ({"type": "contains", "texts": ["so", "{{item.item.parts[1]}}"]}, "parts[1]}} is not in the rows of 1 of 2"),
        ({"type": "number", "gold": "{{ item.hint }}"}, "{{ item.hint }} is not in the rows of 1 of 2 tasks"),
    ],
    ids=["misspelt", "any of", "place in a list", "spaces"],
)  # fmt: skip
def test_a_place_that_some_rows_lack_is_told_with_how_many_and_its_criterion(grader, said):
    with pytest.raises(TaskError) as wrong:
        check_columns(specification(grader), TASKS)
    assert said in wrong.value.what
    assert wrong.value.where == "reward.spec.criteria.it"
    assert "kind" in wrong.value.fix


@pytest.mark.parametrize(
    ("grader", "more"),
    [
        ({"type": "exact", "gold": "{{item.item.name}} {{item.prompt}}"}, {}),
        ({"type": "exact", "gold": "{{item.nowhere}}", "any_of": ["{{item.answer}}"]}, {}),  # `gold` is not read
        ({"type": "exact", "gold": "{{item.hint}}"}, {"applies": {"when": "{{item.kind}}", "any_of": ["city"]}}),
        ({"type": "number", "gold": "3"}, {}),
    ],
    ids=["there", "in place of gold", "applies", "no template"],
)
def test_what_is_there_or_is_not_asked_for_is_no_error(grader, more):
    check_columns(specification(grader, **more), TASKS)


def test_the_condition_and_the_full_answer_are_looked_at_too():
    with pytest.raises(TaskError) as wrong:
        check_columns(specification(SHORT, applies={"when": "{{item.knd}}"}), TASKS)
    assert wrong.value.where == "reward.spec.criteria.it.applies"
    golden = specification(SHORT).model_copy(update={"gold": "It is {{item.answr}}."})
    with pytest.raises(TaskError, match=r"did you mean \{\{item\.answer\}\}") as wrong:
        check_columns(golden, TASKS)
    assert wrong.value.where == "reward.spec.gold"
    check_columns(golden, [])

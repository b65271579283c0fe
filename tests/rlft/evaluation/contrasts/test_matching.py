"""Tasks that several runs share, by id or by question and answer."""

from __future__ import annotations

import pytest

from rlft.evaluation.contrasts import Asked, match, renamed, why_none
from rlft.types import EvaluationReport

OLD = {"a1": Asked("one", "1"), "a2": Asked("two", "2"), "a3": Asked("three", "3")}


def test_tasks_are_found_by_id_and_question_else_by_question_and_answer():
    new = {"b1": Asked("one", "1"), "a2": Asked("two", "22"), "b3": Asked("three", "33")}
    # b1 asks what a1 asks; a2 asks the same under the same id, whatever its answer; b3 has another answer than a3.
    found = match({"old": OLD, "new": new})
    assert found == {"old": {"a1": "a1", "a2": "a2"}, "new": {"a1": "b1", "a2": "a2"}}
    third = {"c2": Asked("two", "2")}
    assert match({"old": OLD, "new": new, "third": third})["third"] == {"a2": "c2"}


def test_an_id_that_asks_something_else_is_not_the_same_task():
    swapped = {"a1": OLD["a2"], "a2": OLD["a1"], "a3": Asked("four", "4")}
    assert match({"old": OLD, "new": swapped})["new"] == {"a1": "a2", "a2": "a1"}


def test_a_question_that_stands_twice_is_matched_by_id_alone():
    twice = {"b1": Asked("one", "1"), "c1": Asked("one", "1")}
    assert match({"old": OLD, "new": twice})["new"] == {}
    assert match({"new": twice, "old": OLD})["old"] == {}
    assert match({"old": twice, "new": {"b1": Asked("one", "1"), "d1": Asked("one", "1")}})["new"] == {
        "b1": "b1",
        "c1": "d1",
    }


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([{"b1": Asked("else", "1")}], "old and r0 share no question of test"),
        ([{}], "old and r0 share no question of test"),
        (
            [{"b1": Asked("one", "9"), "b2": Asked("two", "9")}],
            "old and r0 share 2 of their questions of test, but with other answers",
        ),
        (
            [{"b1": Asked("one", "1"), "c1": Asked("one", "1")}],
            "old and r0 share 1 of their questions of test, but several times in one of them",
        ),
        (
            [{"a1": Asked("one", "1")}, {"a2": Asked("two", "2")}],
            "no task of test is shared by all of these runs, though each shares some with old",
        ),
    ],
)
def test_the_reason_why_nothing_is_shared_is_the_true_one(others, said):
    runs = {"old": OLD, **{f"r{number}": tasks for number, tasks in enumerate(others)}}
    assert not any(match(runs).values())
    assert why_none(runs, "test")[0] == said


def test_a_report_takes_the_ids_of_another_run():
    scores = {"b1": 1.0, "b2": 0.0, "b3": 0.5}
    report = EvaluationReport(
        "test", "p", 1, {}, {"accuracy": scores}, groups={"b1": "g"}, errors={"b2": 1, "b3": 1}, lengths={"b1": 7.0}
    )
    found = renamed(report, {"a1": "b1", "a2": "b2"})
    assert found.per_task == {"accuracy": {"a1": 1.0, "a2": 0.0}}
    assert (found.groups, found.errors, found.lengths) == ({"a1": "g"}, {"a2": 1}, {"a1": 7.0})

import io

import pytest
from rich.console import Console

from cli.result import show_summary
from mlops.runs.summary import difference, empty_summary, part_differences, status_of
from rlft.types import Evaluation, EvaluationReport


def evaluation(**per_task):
    names = {"accuracy": per_task.pop("accuracy", {}), **{f"rewards/{name}": s for name, s in per_task.items()}}
    return Evaluation({"test": EvaluationReport("test", "p", 1, {}, names)})


# `cite` applied to tasks a and b before, to b and c after: only b has both
BEFORE = evaluation(accuracy={"a": 0.0, "b": 0.0, "c": 1.0}, cite={"a": 1.0, "b": 0.25})
AFTER = evaluation(accuracy={"a": 1.0, "b": 0.0, "c": 1.0}, cite={"b": 0.75, "c": 0.0})


def test_before_after_and_change_are_over_the_same_tasks():
    found = difference(AFTER, BEFORE, metric="accuracy", resamples=50, seed=0)
    assert found is not None
    assert (found["before"], found["after"], found["tasks"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 3)
    assert found["mean"] == pytest.approx(1 / 3)
    parts = part_differences(AFTER, BEFORE, resamples=50, seed=0)
    assert {key: parts["rewards/cite"][key] for key in ("before", "after", "mean", "tasks")} == {
        "before": 0.25,
        "after": 0.75,
        "mean": 0.5,
        "tasks": 1,
    }


def test_the_table_of_parts_adds_up():
    parts = part_differences(AFTER, BEFORE, resamples=50, seed=0)
    differences = {**parts, "rewards/other": parts["rewards/cite"]}
    console = Console(file=io.StringIO(), width=120)
    show_summary({**empty_summary("not_improved"), "differences": differences}, console, where=[])
    (row,) = [line for line in console.file.getvalue().splitlines() if "cite" in line]
    assert [word for word in row.split() if word[0] in "0+"][:3] == ["0.250", "0.750", "+0.500"]


def test_what_could_not_be_compared_is_no_result():
    # as when a judge was down for the whole evaluation of one of them
    nothing = difference(evaluation(accuracy={}), BEFORE, metric="accuracy", resamples=50, seed=0)
    assert nothing is None
    assert status_of(nothing) == "failed"
    assert status_of({"ci_low": 0.0}) == "not_improved"
    assert status_of({"ci_low": 0.1}) == "improved"

"""Tasks of a past run among those that were read anew."""

from __future__ import annotations

import pytest

from rlft.errors import TaskError
from rlft.tasks.ingest import match_tasks
from tests.factories import make_task, make_task_set


def test_a_task_is_known_by_its_id_else_by_its_question():
    stored = make_task_set(
        make_task("1", answer="a", split="train", group="g", question_key="q1"),
        make_task("2", answer="b", split="test", question_key="q2"),
        make_task("3", question_key="q3"),
        make_task("4", question_key="q4"),
    )
    read = make_task_set(
        make_task("1", answer="A", split="gate", question_key="other"),
        make_task("9", answer="B", question_key="q2"),
        make_task("7", question_key="q4"),
        make_task("8", question_key="q4"),  # asked twice: nobody knows which is meant
    )
    found = match_tasks(stored, read)
    assert [(task.id, task.answer, task.split) for task in found.tasks] == [("1", "A", "train"), ("2", "B", "test")]
    assert (found.tasks[0].group, found.tasks[0].question_key) == ("g", "q1")
    assert found.notes["gone"] == 2
    assert found.fingerprint != read.fingerprint


def test_none_of_them_is_an_error_that_says_what_to_do():
    with pytest.raises(TaskError, match="none of the 1 tasks of the run") as error:
        match_tasks(make_task_set(make_task("1")), make_task_set(make_task("2")))
    assert "leave the section `tasks`" in error.value.fix

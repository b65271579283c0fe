"""Tasks that a model cannot read are taken out of every split, and named."""

import pytest

from rlft.errors import TaskError
from rlft.tasks.ingest import fingerprint_tasks, leave_out
from rlft.types import Task, TaskSet
from tests.factories import user


def task_set(**ids: list[str]) -> TaskSet:
    tasks = tuple(
        Task(id=id, environment="e", prompt=[user(id)], answer=None, info={}, split=split, group=id)  # type: ignore[arg-type]
        for split, named in ids.items()
        for id in named
    )
    notes = {"rows_per_split": {name: len(each) for name, each in ids.items()}, "tasks": {"source": "s"}}
    return TaskSet(tasks, fingerprint_tasks(tasks), notes)


@pytest.mark.slow
def test_they_are_gone_and_named_by_split(caplog):
    before = task_set(train=["a", "b", "c"], gate=["d", "e"], test=["f"])
    after = leave_out(before, ["b", "c", "e"], [], 512)
    assert [task.id for task in after.tasks] == ["a", "d", "f"]
    assert after.notes == {
        "rows_per_split": {"train": 1, "gate": 1, "test": 1},
        "tasks": {"source": "s"},
        "prompts_too_long": {"train": ["b", "c"], "gate": ["e"]},
    }
    assert after.fingerprint == fingerprint_tasks(after.tasks) != before.fingerprint
    assert "3 of 6 tasks are left out" in caplog.text
    assert "context of 512 tokens: train 2, gate 1" in caplog.text


def test_a_split_that_is_left_empty_is_an_error():
    with pytest.raises(TaskError, match="no task of gate is left, as their prompts are longer"):
        leave_out(task_set(train=["a", "b"], gate=["d"]), ["a", "d"], [], 9)
    with pytest.raises(TaskError, match="no task of gate is left, as people used characters"):
        leave_out(task_set(train=["a", "b"], gate=["d"]), [], ["d"], None)


def test_those_with_unknown_characters_are_named_apart(caplog):
    after = leave_out(task_set(train=["a", "b", "c"]), ["a"], ["c"], 512)
    assert [task.id for task in after.tasks] == ["b"]
    assert after.notes["prompts_too_long"] == {"train": ["a"]}
    assert after.notes["prompts_unreadable"] == {"train": ["c"]}
    assert "1 of 3 tasks are left out, as people used characters in them" in caplog.text

"""A task that is in another split than before is named; new and missing ones are not."""

from __future__ import annotations

import dataclasses

from rlft.gates.identity import task_hash
from rlft.tasks.moves import Move, count_new, describe_moves, find_moves
from rlft.types import TaskSet
from tests.factories import make_task

A, B, C, NEW = (make_task(name, prompt=f"question {name}", split="train") for name in ("a", "b", "c", "new"))
BEFORE = {"train": [task_hash(A), task_hash(B), task_hash(C), "00000000"], "gate": []}


def dealt(**splits):
    return TaskSet(tuple(dataclasses.replace(t, split=splits.get(t.id, "train")) for t in (A, B, C, NEW)), "f")


def test_tasks_that_stay_and_new_ones_have_not_moved():
    assert find_moves(BEFORE, dealt(new="gate")) == ()


def test_tasks_that_moved_are_named_with_both_splits():
    moves = find_moves(BEFORE, dealt(a="gate", c="gate", b="test"))
    assert moves == (Move("a", "train", "gate"), Move("b", "train", "test"), Move("c", "train", "gate"))
    assert describe_moves(moves) == "2 from train to gate, 1 from train to test"


def test_a_task_that_was_in_two_splits_moves_only_out_of_both():
    twice = {"train": [task_hash(A)], "off_distribution": [task_hash(A)]}
    assert find_moves(twice, dealt(a="off_distribution")) == ()
    assert [move.task_id for move in find_moves(twice, dealt(a="gate"))] == ["a"]


def test_tasks_that_were_in_no_split_are_counted():
    assert count_new(BEFORE, [A, NEW, NEW]) == 2
    assert count_new({}, [A]) == 1

"""Tasks and gates are known again whatever their template, and looks at one gate share a chance of false promotion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.evaluation import gates
from rlft.evaluation.gates import (
    Look,
    confidence_at,
    gate_id,
    is_same_gate,
    next_look,
    prompt_key,
    question_key,
    question_of,
    shared,
    sketch,
    task_hash,
    why_refused,
)
from tests.rlft.attempts import make_task


def tasks(numbers):
    return [make_task(f"t{n}", f"What is {n}?", str(n)) for n in numbers]


def test_a_task_is_what_it_asks():
    one = make_task("a", "2 + 2", "4")
    assert task_hash(one) == task_hash(make_task("another id", " 2  + 2\n", "5", note="another column"))
    assert task_hash(one) != task_hash(make_task("a", "2 + 3", "4"))
    assert task_hash(replace(one, question_key="0123456789abcdef")) == "01234567"
    assert len(task_hash(make_task("lone surrogate", "\ud800", None))) == 8


def test_a_question_in_one_field_is_that_of_a_prompt_which_is_this_field():
    assert question_key(["What is  2 + 2?"]) == prompt_key(({"role": "user", "content": "what is 2 + 2?"},))
    assert question_key(["1", "23"]) != question_key(["12", "3"])
    assert question_of(make_task("a", "2 + 2", "4")) == question_key(["2 + 2"])


def test_the_order_of_a_gate_does_not_matter():
    assert gate_id(tasks(range(9))) == gate_id(tasks(reversed(range(9))))
    assert gate_id(tasks(range(9))) != gate_id(tasks(range(8)))


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [
        (range(10), range(10), 1.0),
        (range(10), range(5, 15), 0.5),
        (range(500), range(200), 0.4),  # a gate that has grown from 200 to 500 tasks is mostly new
        (range(200), range(500), 1.0),  # and one that has shrunk is not
        (range(10), range(20, 30), 0.0),
        (range(0), range(10), 0.0),
    ],
)
def test_the_share_of_a_gate_that_was_in_another_is_exact_for_small_ones(ours, theirs, share):
    assert shared(sketch(tasks(ours)), sketch(tasks(theirs))) == pytest.approx(share)
    assert is_same_gate(sketch(tasks(ours)), sketch(tasks(theirs))) == (share > 0.5)


@pytest.mark.parametrize(("start", "share"), [(0, 1.0), (1000, 0.75), (3000, 0.25), (4000, 0.0)])
def test_that_of_large_gates_is_estimated(start, share):
    found = shared(sketch(tasks(range(4000))), sketch(tasks(range(start, start + 4000))))
    assert found == pytest.approx(share, abs=0.06)  # three standard errors of sqrt(0.25 / 540) = 0.02


def test_a_sketch_fits_into_a_tag():
    assert len(sketch(tasks(range(1000)))) == 8 * gates.SKETCH < 5000


@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 60), min_size=1))
def test_the_share_of_small_gates_is_that_of_the_sets(ours, theirs):
    assert shared(sketch(tasks(ours)), sketch(tasks(theirs))) == pytest.approx(len(ours & theirs) / len(ours))


def test_gates_are_taken_together():
    # Half of it was in one gate and half in another, of which neither holds more than half.
    ours, one, other = (sketch(tasks(numbers)) for numbers in (range(20), range(10), range(10, 40)))
    assert (shared(ours, one), shared(ours, other), shared(ours, one, other)) == (0.5, 0.5, 1.0)
    assert not is_same_gate(ours, one)
    assert is_same_gate(ours, one, other)
    assert not is_same_gate(ours)


def test_five_percent_are_split_over_the_looks():
    # One-sided 0.05 / 20 = 0.0025 a look, so two-sided 1 - 2 * 0.0025. One or two looks have the usual 95 %.
    assert confidence_at(20) == pytest.approx(0.995)
    assert confidence_at(1) == confidence_at(2) == 0.95
    assert confidence_at(5) == pytest.approx(0.98)


def test_a_look_is_refused_once_the_chance_is_spent_and_says_what_to_do():
    last = next_look(Look(19, 19 / 20), 20)
    assert (last.number, why_refused(last, 20)) == (20, None)  # 19/20 + 1/20 = 1
    assert "looked at 20 times, and promotion.looks allows 20" in str(why_refused(next_look(last, 20), 20))
    # One of 2 looks has spent half, and two of 3 the rest and more: 1/2 + 2/3.
    early = next_look(next_look(Look(1, 1 / 2), 3), 3)
    assert "less than one of 3 looks takes" in str(why_refused(early, 3))
    assert str(why_refused(early, 3)).endswith("draw a fresh gate (another tasks.seed, or new tasks)")

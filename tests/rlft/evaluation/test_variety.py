from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.evaluation.variety import answers_given, collapse, named, right_answers, solved_answers, variety
from rlft.types import EvaluationReport
from tests.rlft.attempts import make_task
from tests.rlft.evaluation.test_evaluate import reward, rollout


@pytest.mark.parametrize(
    ("counts", "needed"),
    [
        ([], 0),
        ([7], 1),
        ([95, 1, 1, 1, 1, 1], 1),  # 95 of 100
        ([94, 2, 1, 1, 1, 1], 2),  # 94 are not enough, 96 are
        ([1] * 20, 19),  # each is 5 %
        ([90, *[1] * 10], 6),  # 90 and five more
        ([1, 1, 1, 1, 95, 1], 1),  # in any order
    ],
)
def test_variety_by_hand(counts, needed):
    assert variety(counts) == needed


@pytest.mark.slow
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_the_answers_that_are_counted_are_enough_and_no_fewer_are(counts):
    needed, ordered = variety(counts), sorted(counts, reverse=True)
    assert sum(ordered[:needed]) * 100 >= 95 * sum(counts)
    assert sum(ordered[: needed - 1]) * 100 < 95 * sum(counts)


def said(*answers):
    """(completion, answer) of each attempt."""
    pairs = []
    for place, (text, answer) in enumerate(answers):
        made = rollout(str(place), 0)
        message = {"role": "assistant", "content": text}
        pairs.append(
            (replace(made, messages=({"role": "user", "content": "q"}, message)), reward(str(place), 0, 1, answer))
        )
    return pairs


def test_the_shortest_completion_stands_for_an_answer():
    found, frequent = answers_given(said(("I think 7", "7"), ("7", "7"), ("so 7", "7"), ("8", "8"), ("", None)))
    assert (found, frequent) == (3, {"7": 3, "": 1, "8": 1})


def test_long_completions_and_rare_ones_are_not_kept():
    found, frequent = answers_given(said(("x" * 3000, "x"), *[(str(n), str(n)) for n in range(9)]))
    assert found == 10
    assert list(frequent) == ["0", "1", "2", "3", "4"]


def test_right_answers_are_counted_where_each_task_has_one():
    tasks = [make_task(f"t{n}", "q", n % 4) for n in range(40)]
    assert right_answers(tasks) == 4
    assert right_answers([*tasks, make_task("u", "q", None)]) is None
    assert right_answers([]) is None
    assert right_answers([make_task("a", "q", {"x": 1, "y": 2}), make_task("b", "q", {"y": 2, "x": 1})]) == 1


def report(answers, right, solved=0):
    return EvaluationReport("gate", "p", 1, {}, {}, answers=answers, right_answers=right, solved_answers=solved)


def test_collapse_is_less_than_a_fifth_of_what_is_needed():
    start = report(19, 20)
    assert collapse(report(4, 20), start) is None  # 4 * 5 = 20, and 19 are needed
    found = collapse(report(3, 20), start)
    assert found is not None
    assert "3 answers make up 95% of its attempts on gate" in found
    assert "one answer makes up" in str(collapse(report(1, 20), start))


def test_answers_that_solved_a_task_are_counted():
    attempts = [(rollout(str(n), 0), reward(str(n), 0, float(n < 6), str(n % 4))) for n in range(8)]
    assert solved_answers(attempts) == 4  # of the first six: 0, 0, 1, 1, 2, 3
    assert solved_answers(attempts[6:]) == 0


def test_where_only_a_check_is_known_the_answers_that_solved_tasks_before_training_are_what_is_needed():
    # It solved tasks with 14 answers before training, and gives 2 now: a fifth would be 2.8.
    found = collapse(report(2, None, solved=1), report(180, None, solved=14))
    assert found is not None
    assert "2 answers make up 95%" in found
    assert "while the model it started from solved tasks with 14 and gave 180" in found
    assert collapse(report(3, None), report(180, None, solved=14)) is None
    assert collapse(report(1, None, solved=1), report(19, None, solved=2)) is None  # two labels, judged by a model


@pytest.mark.parametrize(
    ("answers", "right", "start"),
    [
        (1, 2, 19),  # two labels, and a model that babbled before
        (2, None, 200),  # right answers are not known, and nothing was solved before training
        (1, 20, 2),  # it gave two answers when it started
        (0, 20, 19),  # nothing was scored
    ],
)
def test_few_answers_are_no_collapse_where_few_are_needed_or_nothing_is_known(answers, right, start):
    assert collapse(report(answers, right), report(start, right)) is None


def test_frequent_answers_are_named_with_their_counts():
    assert named({"?": 180, "7": 12, "": 5, "9": 3}) == "'?' (180), '7' (12), '' (5)"

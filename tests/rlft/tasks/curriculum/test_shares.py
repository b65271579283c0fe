"""Tasks of several environments by their shares."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.tasks.curriculum import tasks_by_shares, turns_of
from tests.factories import make_task, make_task_set

shares_of_several = st.lists(st.sampled_from([0.001, 0.3, 0.7, 1.0, 1.5, 2.0, 7.0]), min_size=2, max_size=5).map(
    lambda shares: {f"e{place}": share for place, share in enumerate(shares)}
)


def tasks(**sizes):
    """So many train tasks of each environment, and one of `gate`."""
    rows = [(name, n) for name, size in sizes.items() for n in range(size)]
    made = [replace(make_task(f"{name}{n}"), environment=name) for name, n in rows]
    return make_task_set(*made, *(replace(make_task(f"{name}-gate", split="gate"), environment=name) for name in sizes))


@pytest.mark.slow
@given(shares_of_several, st.integers(1, 300))
def test_after_any_number_of_turns_each_has_had_its_share(shares, count):
    # Tijdeman's theorem: to within 1 - 1 / (2 k - 2), which is a half for two.
    _, turns = turns_of(shares, 0, count)
    had, total, bound = Counter(), sum(shares.values()), 1 - 1 / (2 * len(shares) - 2)
    for turn, name in enumerate(turns, start=1):
        had[name] += 1
        assert all(abs(had[each] - turn * share / total) <= bound + 1e-9 for each, share in shares.items())


@given(shares_of_several, st.integers(0, 5000), st.integers(1, 40))
def test_turns_do_not_depend_on_where_one_begins_to_count(shares, first, count):
    _, turns = turns_of(shares, 0, first + count)
    before, found = turns_of(shares, first, count)
    assert found == turns[first:]
    assert +before == Counter(turns[:first])


def test_shares_are_read_as_they_are_written():
    # 0.3 and 0.7 are three and seven tenths, though no binary number is: after ten turns all begins again.
    before, turns = turns_of({"a": 0.3, "b": 0.7}, 10**9, 10)
    assert before == {"a": 3 * 10**8, "b": 7 * 10**8}
    assert Counter(turns) == {"a": 3, "b": 7}


def test_three_tasks_of_one_for_each_of_the_other():
    drawn = tasks_by_shares(tasks(a=40, b=40), {"a": 3, "b": 1}, round=0, count=8, seed=0)
    assert Counter(task.environment for task in drawn) == {"a": 6, "b": 2}
    assert {task.split for task in drawn} == {"train"}


@pytest.mark.parametrize("seed", range(5))
def test_each_environment_has_epochs_of_its_own(seed):
    found, seen = tasks(a=13, b=40), Counter()
    for number in range(26):  # 26 rounds of 6 are 117 tasks of `a`, nine epochs, and 39 of `b`
        drawn = [task.id for task in tasks_by_shares(found, {"a": 3, "b": 1}, round=number, count=6, seed=seed)]
        assert len(set(drawn)) == 6  # none comes twice in a round, where an epoch ends within it either
        seen.update(drawn)
    assert {seen[f"a{n}"] for n in range(13)} == {9}
    assert sorted(seen[f"b{n}"] for n in range(40)) == [0] + [1] * 39


def test_epochs_are_in_orders_of_their_own_and_follow_from_the_seed():
    found, shares = tasks(a=20, b=20), {"a": 1, "b": 1}

    def drawn(number, seed):
        return [task.id for task in tasks_by_shares(found, shares, round=number, count=40, seed=seed)]

    assert drawn(0, 1) == drawn(0, 1)
    assert len({tuple(drawn(number, seed)) for number in range(3) for seed in range(3)}) == 9
    assert all(sorted(drawn(number, 1)) == sorted(drawn(0, 1)) for number in range(3))


def test_few_tasks_come_again_within_a_round():
    drawn = tasks_by_shares(tasks(a=2, b=9), {"a": 1, "b": 1}, round=0, count=10, seed=0)
    assert Counter(task.environment for task in drawn) == {"a": 5, "b": 5}
    assert len({task.id for task in drawn if task.environment == "a"}) == 2

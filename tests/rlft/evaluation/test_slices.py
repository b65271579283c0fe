from hypothesis import given
from hypothesis import strategies as st

from rlft.evaluation.slices import NONE, OTHER, slices_of
from tests.factories import make_task


def tasks(values):
    return [make_task(f"t{place}", info={} if value is None else {"c": value}) for place, value in enumerate(values)]


def found(values):
    return {name: sorted(ids) for name, ids in slices_of(tasks(values), ["c"])["c"].items()}


def test_texts_are_slices_in_the_order_of_their_names_and_tasks_without_the_column_come_last():
    assert found(["b", "a", None, "b"]) == {"a": ["t1"], "b": ["t0", "t3"], NONE: ["t2"]}
    assert list(found(["b", "a", None, "b"])) == ["a", "b", NONE]


def test_few_numbers_are_slices_of_their_own_in_their_order():
    assert list(found([10, 2, 10, 9])) == ["2", "9", "10"]


def test_many_numbers_become_four_ranges_that_are_named_by_what_occurs_in_them():
    # 1 to 16: the quartiles are 4.75, 8.5 and 12.25, so each range has four numbers.
    names = found(list(range(1, 17)))
    assert {name: len(ids) for name, ids in names.items()} == {"1 to 4": 4, "5 to 8": 4, "9 to 12": 4, "13 to 16": 4}
    assert list(names) == ["1 to 4", "5 to 8", "9 to 12", "13 to 16"]


def test_the_rarest_of_many_texts_become_one_slice():
    values = [letter for letter in "abcdefghijk" for _ in range(2)] + ["x", "y"]
    names = found(values)
    assert names[OTHER] == ["t22", "t23"]
    assert list(names) == [*"abcdefghijk", OTHER]


def test_other_values_are_written_as_json_and_nothing_steers_a_terminal():
    assert list(found([True, ["a"], "\x1b[2J"])) == ['["a"]', "\\x1b[2J", "true"]


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5), st.booleans()), max_size=60))
def test_every_task_is_in_one_slice(values):
    sliced = slices_of(tasks(values), ["c"])["c"]
    assert sorted(task for ids in sliced.values() for task in ids) == sorted(task.id for task in tasks(values))


def test_a_task_s_environment_is_a_column_unless_there_is_one_of_that_name():
    several = [make_task("a", environment="sums"), make_task("b", environment="words", info={"environment": "mine"})]
    assert slices_of(several, ["environment"])["environment"] == {"mine": frozenset("b"), "sums": frozenset("a")}

"""Samples that are even over kinds."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rlft.tasks.use.take import draw_evenly
from rlft.types import Task


def task(id, kind):
    return Task(id, "e", ({"role": "user", "content": id},), None, {"kind": kind}, "train", id)


def kind(task):
    return task.info["kind"]


def of(**counts):
    return [task(f"{name}{n}", name) for name, count in counts.items() for n in range(count)]


def drawn(count, **counts):
    return Counter(map(kind, draw_evenly(of(**counts), count, kind)))


def test_each_kind_gets_the_same_and_what_a_small_one_lacks_goes_to_the_others():
    assert drawn(30, a=100, b=100, c=100) == {"a": 10, "b": 10, "c": 10}
    # c has 4: of the other 26 each gets 13
    assert drawn(30, a=100, b=100, c=4) == {"a": 13, "b": 13, "c": 4}
    # 31 = 10 + 10 + 11, the last to the largest
    assert drawn(31, a=100, b=99, c=98) == {"c": 10, "b": 10, "a": 11}
    assert drawn(3, a=1, b=1) == {"a": 1, "b": 1}
    assert drawn(0, a=5) == {}


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 30), max_size=6), st.integers(0, 100))
def test_as_many_as_there_are_or_as_many_as_may_be_and_no_kind_is_behind(counts, count):
    found = drawn(count, **counts)
    assert found.total() == min(count, sum(counts.values()))
    for name, size in counts.items():
        if found[name] < size:  # it could have had more: then no other has more than one more
            assert all(found[other] <= found[name] + 1 for other in counts)


def test_the_same_are_drawn_again_whatever_other_kinds_and_orders_there_are():
    chosen = {t.id for t in draw_evenly(of(a=20), 5, kind)}
    more = of(b=5, a=20)
    again = draw_evenly(more[::-1], 10, kind)
    assert {t.id for t in again if kind(t) == "a"} == chosen
    assert [t.id for t in again] == [t.id for t in more[::-1] if t in again]  # their own order

"""Requests divided among servers of different speed, which die or fail; the servers are functions that wait."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.engines.load_balancing import LoadBalancer, alike

WITHIN = 20.0  # seconds that a test waits for another thread before it fails


class Desk:
    """Servers by their names: what each was asked, the most at a time, and what happens to a request."""

    def __init__(self, *names: str, width: int = 2) -> None:
        self.names, self.live, self.width = names, list(names), width
        self.asked: dict[str, list[int]] = defaultdict(list)
        self.most: dict[str, int] = defaultdict(int)
        self.lost: list[int] = []
        self._now: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def happens(self, server: str, request: int) -> bool:
        """Answer at once."""
        return True

    def ask(self, server: str, request: int) -> bool:
        with self._lock:
            self._now[server] += 1
            self.most[server] = max(self.most[server], self._now[server])
            self.asked[server].append(request)
        try:
            return self.happens(server, request)
        finally:
            with self._lock:
                self._now[server] -= 1

    def make(self, groups):
        LoadBalancer(self.names, lambda: self.live, self.ask, self.lost.append, width=self.width).make(groups)


def test_a_slow_server_gets_what_it_has_room_for_and_the_other_all_else():
    # Two places each: "slow" is given the second group and answers only once "fast" has answered all the others, which
    # would never be if groups went to the servers in turn.
    desk, rest, done = Desk("fast", "slow"), threading.Event(), []

    def happens(server, request):
        if server == "slow":
            return rest.wait(WITHIN)
        done.append(request)
        if len(done) == 8:
            rest.set()
        return True

    desk.happens = happens
    desk.make([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]])
    assert sorted(desk.asked["slow"]) == [2, 3]
    assert sorted(desk.asked["fast"]) == [0, 1, 4, 5, 6, 7, 8, 9]
    assert all(most <= 2 for most in desk.most.values())


def test_the_next_group_goes_to_where_the_fewest_are_live():
    # Nothing is answered before all are given: 3 to a; 1 to b; then b has 1 live and a 3; then 2 and 3, and b has 4.
    desk, all_asked, asked = Desk("a", "b", width=8), threading.Event(), []

    def happens(server, request):
        asked.append(request)
        if len(asked) == 8:
            all_asked.set()
        return all_asked.wait(WITHIN)

    desk.happens = happens
    desk.make([[0, 1, 2], [3], [4], [5, 6], [7]])
    assert {name: sorted(found) for name, found in desk.asked.items()} == {"a": [0, 1, 2, 7], "b": [3, 4, 5, 6]}


def test_what_a_dead_server_had_goes_to_another_one_as_a_group():
    desk, answered = Desk("a", "b", "c", width=3), set()

    def happens(server, request):
        if server == "a":
            desk.live = ["b", "c"]
            return False
        answered.add(request)
        return True

    desk.happens = happens
    desk.make([[0, 1, 2], [3], [4]])
    assert answered == set(range(5))
    assert desk.lost == []
    assert [len({0, 1, 2} & set(desk.asked[name])) for name in ("b", "c")] in ([3, 0], [0, 3])


def test_without_a_server_everything_is_lost_once():
    desk = Desk("a")
    desk.happens = lambda server, request: bool(desk.live.clear())  # which is no answer either
    desk.make([[0, 1], [2], [3, 4]])
    assert sorted(desk.lost) == [0, 1, 2, 3, 4]
    nobody = Desk()
    nobody.make([[0]])
    assert nobody.lost == [0]


def test_what_asking_raises_ends_it():
    desk = Desk("a", "b")

    def happens(server, request):
        raise ZeroDivisionError(request)

    desk.happens = happens
    with pytest.raises(ZeroDivisionError):
        desk.make([[number] for number in range(100)])
    assert sum(map(len, desk.asked.values())) <= 4  # those that were under way


def test_nothing_to_do():
    desk = Desk("a")
    desk.make([])
    assert (desk.asked, desk.lost) == ({}, [])


@given(
    st.lists(st.integers(1, 5), max_size=12),
    st.integers(1, 4),
    st.sets(st.integers(0, 59), max_size=2),
    st.integers(1, 3),
)
def test_each_request_is_answered_once_or_lost(sizes, width, deadly, count):
    desk = Desk(*"abc"[:count], width=width)
    lock, answered = threading.Lock(), []

    def happens(server, request):
        with lock:
            if request in deadly:
                deadly.discard(request)
                desk.live = [name for name in desk.live if name != server]
            if server not in desk.live:
                return False
            answered.append(request)
            return True

    desk.happens = happens
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    desk.make([range(start, start + size) for start, size in zip(starts, sizes, strict=True)])
    assert sorted([*answered, *desk.lost]) == list(range(sum(sizes)))
    assert all(most <= width for most in desk.most.values())


def test_equal_prompts_are_a_group_of_bounded_size():
    # Places 0, 2, 3 and 5 have the prompt [1]: three of them and one.
    assert alike([[1], [2], [1], [1], [2, 1], [1]], 3) == [[0, 2, 3], [5], [1], [4]]
    assert alike([], 3) == []

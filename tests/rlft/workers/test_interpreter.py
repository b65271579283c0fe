"""Turns of threads are short inside the context alone."""

import sys

import pytest

from rlft.workers.interpreter import SECONDS, shared_evenly


def test_turns_are_short_inside_and_as_before_after_an_error():
    before = sys.getswitchinterval()
    inside = []

    def fails():
        inside.append(sys.getswitchinterval())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), shared_evenly():
        fails()
    assert inside == [pytest.approx(SECONDS)]
    assert sys.getswitchinterval() == before > 10 * SECONDS

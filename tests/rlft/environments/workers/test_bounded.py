"""Jobs run side by side, each within its own time; one that blocks the others costs them nothing but time."""

import asyncio
import time

import pytest

from rlft.environments.workers.threads import Late, run_bounded


def outcomes(jobs, **limits):
    return [found for _, found in sorted(run_bounded(jobs, None, **limits), key=lambda each: each[0])]


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_so_many_run_at_once_and_never_more(at_once):
    running, most = 0, 0

    async def job():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return running

    found = outcomes([job] * 8, at_once=at_once)
    assert len(found) == 8
    assert most == at_once


def test_the_late_are_told_by_place_and_the_rest_have_their_results():
    async def job(seconds):
        await asyncio.sleep(seconds)
        return seconds

    first, second, third = outcomes([lambda s=s: job(s) for s in (0.0, 30.0, 0.1)], at_once=3, seconds=0.5)
    assert (first, third) == (0.0, 0.1)
    assert isinstance(second, Late)
    assert str(second) == "no result within 0.5 s"


def test_one_that_blocks_the_loop_is_late_alone():
    begun = []

    async def job(number):
        begun.append(number)
        await asyncio.sleep(0.05)
        while number == 1:
            time.sleep(0.01)
        await asyncio.sleep(0.05)
        return number

    found = outcomes([lambda n=n: job(n) for n in range(6)], at_once=3, seconds=0.5)
    assert [number for number in found if not isinstance(number, Late)] == [0, 2, 3, 4, 5]
    assert isinstance(found[1], Late)
    assert begun.count(1) == 1  # the others began anew on another thread, as they had waited for it
    assert begun.count(2) == 2


def test_a_jobs_time_begins_when_it_does():
    async def job():
        time.sleep(0.15)  # holds the loop, as work does
        return "done"

    # The last one waits 0.75 s for the others, and then takes 0.15 s.
    assert outcomes([job] * 6, at_once=6, seconds=0.5) == ["done"] * 6

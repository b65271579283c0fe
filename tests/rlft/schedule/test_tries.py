"""What follows from the exit code of a run."""

import pytest

from rlft.schedule.settings import RetriesConfig
from rlft.schedule.tries import after_try, wait_seconds

TWICE = RetriesConfig(count=2)


@pytest.mark.parametrize("code", [0, 3, 4])
def test_a_run_that_came_to_its_end_is_over(code):
    assert after_try(code, 1, TWICE).what == "finished"


@pytest.mark.parametrize("code", [1, 5, 129, 137, 139, 143])
def test_what_may_go_better_is_tried_again_as_often_as_it_says(code):
    # one try and two more
    assert [after_try(code, tries, TWICE).what for tries in (1, 2, 3)] == ["again", "again", "failed"]


@pytest.mark.parametrize("code", [2, 130])
def test_a_set_up_that_cannot_work_and_a_person_who_ended_it_are_no_reason_to_try_again(code):
    assert after_try(code, 1, TWICE).what == "failed"


def test_what_would_fail_again_is_not_tried():
    assert after_try(1, 1, TWICE, hopeless=True).sentence == "it failed, and would not the next time"


def test_without_retries_the_first_try_is_the_last():
    assert after_try(1, 1, RetriesConfig(count=0)).sentence == "it failed"
    assert after_try(1, 3, TWICE).sentence == "it failed, the last of 3 tries"


def test_the_waits_grow_up_to_the_longest():
    retries = RetriesConfig(wait_minutes=10, factor=3, longest_wait_minutes=60)
    # 10, 30 and 90 minutes, of which 60 are the most
    assert [wait_seconds(tries, retries) for tries in (1, 2, 3)] == [600, 1800, 3600]


def test_the_wait_of_many_tries_is_still_a_number():
    assert wait_seconds(1000, RetriesConfig(count=100, wait_minutes=1, factor=100)) == 240 * 60

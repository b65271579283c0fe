"""The reward against what counts: what falls, what stays, and what is healthy."""

from dataclasses import replace

import numpy as np
import pytest

from rlft.evaluation.diagnosis.monitors import _shares, overoptimization, reward_gap
from tests.rlft.evaluation.monitors.runs import history, rounds, validated

ONE = rounds(reward=[0.5], rewards__right__mean=[0.5])


def judged(before: dict[str, int], after: dict[str, int], **more):
    reports = {0: validated(**before), 4: validated(**after)}
    return overoptimization(history(ONE, reports, **more))


def test_a_reward_that_rises_while_what_counts_falls_is_seen():
    found = judged({"reward": 40, "rewards/right": 40}, {"reward": 80, "rewards/right": 10})
    assert found is not None
    assert "On 100 validation tasks the reward rose from 0.40 to 0.80 (by at least 0." in found.what
    assert "`right`, which says what counts, went from 0.40 to 0.10 (it has fallen by at least 0.1" in found.what
    assert "`rlft audit`" in found.remedy


def test_a_reward_that_goes_half_of_its_way_while_what_counts_stays_is_seen():
    found = judged({"reward": 20, "rewards/right": 0}, {"reward": 90, "rewards/right": 0}, level=0.01)
    # The way is 0.8, and the reward went 0.7 of it. None of 100 tasks is right: the upper bound at 98 % is below 0.1.
    assert found is not None
    assert "went from 0.00 to 0.00 (it has risen by at most 0.0" in found.what


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"reward": 40, "rewards/right": 40}, {"reward": 80, "rewards/right": 80}),  # both rise
        ({"reward": 40, "rewards/right": 40}, {"reward": 44, "rewards/right": 30}),  # the reward's rise is chance
        ({"reward": 40, "rewards/right": 40}, {"reward": 80, "rewards/right": 38}),  # no fall beyond chance
        ({"reward": 0, "rewards/right": 0}, {"reward": 35, "rewards/right": 0}),  # the form is learnt first
        ({"reward": 40, "rewards/right": 40}, {"reward": 10, "rewards/right": 10}),  # both fall
        ({"reward": 20, "rewards/right": 10}, {"reward": 90, "rewards/right": 30}),  # it lags behind, and rises
    ],
)
def test_what_is_healthy_or_not_yet_clear_is_not_accused(before, after):
    assert judged(before, after) is None


def test_without_an_honest_part_the_share_of_solved_attempts_counts():
    found = judged({"reward": 40, "accuracy": 40}, {"reward": 80, "accuracy": 10}, honest="")
    assert found is not None
    assert "the share of solved attempts went from 0.40 to 0.10" in found.what


def test_attempts_without_a_score_count_in_favour_of_what_counts():
    reports = {0: validated(**{"reward": 40, "rewards/right": 40}), 4: validated(**{"reward": 80, "rewards/right": 10})}
    failed = {f"t{place:03d}": 1 for place in range(50, 100)}
    assert overoptimization(history(ONE, reports)) is not None
    assert overoptimization(history(ONE, {**reports, 4: replace(reports[4], errors=failed)})) is None


def test_a_stricter_level_needs_more_to_be_seen():
    before, after = {"reward": 40, "rewards/right": 40}, {"reward": 80, "rewards/right": 30}
    assert judged(before, after, level=0.05) is not None
    assert judged(before, after, level=1e-6) is None
    # Of an interval one end is asked, so level 0.01 is that of 98 %: where 12 of 100 tasks are lost, it ends at -0.006,
    # and one of 99 % at +0.005.
    assert judged(before, after | {"rewards/right": 28}, level=0.01) is not None
    assert judged(before, after | {"rewards/right": 28}, level=0.005) is None


def test_what_counts_may_rise_first_and_fall_then():
    course = {0: (40, 40), 4: (60, 80), 8: (80, 85), 12: (95, 45)}  # by rounds before it: reward, and what counts
    reports = {number: validated(reward=paid, rewards__right=right) for number, (paid, right) in course.items()}
    assert overoptimization(history(ONE, {number: reports[number] for number in (0, 4, 8)})) is None
    found = overoptimization(history(ONE, reports))
    assert found is not None  # against the start what counts has risen; against round 4 it is lost at 35 of 100 tasks
    assert "the reward rose since round 4 from 0.60 to 0.95" in found.what
    assert "went from 0.80 to 0.45 (it has fallen by at least 0." in found.what
    healthy = reports | {12: validated(reward=95, rewards__right=84)}
    assert overoptimization(history(ONE, healthy)) is None
    unpaid = reports | {12: validated(reward=60, rewards__right=45)}  # the reward falls with it
    assert overoptimization(history(ONE, unpaid)) is None


def test_the_looks_at_earlier_validations_share_the_chance_of_a_false_alarm():
    # Half of the level is the start's. 12 of 100 tasks are lost: seen at 0.01, and not at 0.005 (see above).
    course = {0: (40, 40), 4: (40, 40), 8: (80, 28)}
    reports = {number: validated(reward=paid, rewards__right=right) for number, (paid, right) in course.items()}
    assert overoptimization(history(ONE, {0: reports[0], 8: reports[8]}, level=0.01)) is not None
    assert overoptimization(history(ONE, reports, level=0.01)) is None
    assert overoptimization(history(ONE, reports, level=0.02)) is not None


def test_the_shares_of_the_level_add_up_to_it():
    assert _shares(0.01, 1) == [0.01]
    assert _shares(0.01, 3) == [0.005, 0.0025, 0.0025]


def test_what_counts_may_stay_once_it_has_risen():
    course = {0: (80, 0), 4: (80, 80), 8: (360, 80)}  # by rounds before it: reward, and what counts, of 400 tasks
    reports = {number: validated(400, reward=paid, rewards__right=right) for number, (paid, right) in course.items()}
    assert overoptimization(history(ONE, reports)) is None
    assert overoptimization(history(ONE, {0: reports[4], 8: reports[8]})) is not None  # had it begun there


def test_one_validation_says_nothing():
    assert overoptimization(history(ONE, {0: validated(reward=40, rewards__right=40)})) is None


WAY = {0: validated(reward=20, rewards__right=20)}  # only for the maximum, which is 1


def test_in_training_what_counts_falls_by_a_quarter_beyond_chance():
    up, down = np.linspace(0.2, 0.5, 12), np.linspace(0.4, 0.2, 12)
    found = reward_gap(history(rounds(reward=up, rewards__right__mean=down), WAY))
    assert found is not None
    # Thirds of twelve rounds: 0.2 + 0.3 * 1.5 / 11 and 0.5 minus as much; 0.4 - 0.2 * 1.5 / 11 and 0.2 plus as much.
    assert (
        "the reward rose from 0.24 to 0.46, and `right`, which says what counts, went from 0.37 to 0.23" in found.what
    )
    slightly = np.linspace(0.4, 0.34, 12)
    assert reward_gap(history(rounds(reward=up, rewards__right__mean=slightly), WAY)) is None


def test_in_training_what_counts_stays_while_the_reward_goes_half_of_its_way():
    up, still = np.linspace(0.1, 0.9, 12), [0.1, 0.11] * 6
    assert reward_gap(history(rounds(reward=up, rewards__right__mean=still), WAY)) is not None
    for reward, right in (
        (np.linspace(0.1, 0.4, 12), still),  # a third of the way
        (up, np.linspace(0.1, 0.3, 12)),  # what counts rises by a fifth of its own
        ([0.1, 0.9] * 6, still),  # no trend
    ):
        assert reward_gap(history(rounds(reward=reward, rewards__right__mean=right), WAY)) is None


def test_nothing_is_said_of_few_rounds_or_of_rounds_without_what_counts():
    up = np.linspace(0.1, 0.9, 12)
    assert reward_gap(history(rounds(reward=up), WAY)) is None
    assert reward_gap(history(rounds(reward=up[:2], rewards__right__mean=[0.1, 0.1]), WAY)) is None

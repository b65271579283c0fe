"""What attempts say of a task: by value, and what decays, retires and comes back."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rlft.tasks.curriculum import (
    Belief,
    PassRates,
    believe,
    count_passes,
    note_round,
)
from tests.factories import make_reward, make_rollout


def rewards(task, solved, failed, errored=0):
    """Rewards of attempts at a task: 1 is solved, 0 is not, `None` has no score."""
    totals = [1.0] * solved + [0.0] * failed + [None] * errored
    return [make_reward(make_rollout(task, number), total) for number, total in enumerate(totals)]


def note(rates, scored, round, half_life=10.0, retire_at=0.9):
    return note_round(rates, scored, round=round, half_life=half_life, retire_at=retire_at)


@pytest.mark.parametrize(
    ("alpha", "beta", "mean", "learnability"),
    [
        (1, 1, 1 / 2, 1 / 6),  # 1 * 1 / (2 * 3)
        (5, 5, 1 / 2, 25 / 110),  # 5 * 5 / (10 * 11)
        (9, 1, 9 / 10, 9 / 110),  # eight passes
        (1, 9, 1 / 10, 9 / 110),  # eight failures weigh as much as eight passes
    ],
)
def test_a_belief_by_value(alpha, beta, mean, learnability):
    belief = Belief(alpha, beta)
    assert belief.mean == pytest.approx(mean)
    assert belief.learnability == pytest.approx(learnability)


@given(st.floats(1, 1e4), st.floats(1, 1e4))
def test_the_learnability_is_the_mean_of_p_times_one_minus_p(alpha, beta):
    # E[p (1 - p)] = E[p] - E[p]^2 - Var[p], with the variance of a beta distribution
    total = alpha + beta
    mean, variance = alpha / total, alpha * beta / (total**2 * (total + 1))
    assert Belief(alpha, beta).learnability == pytest.approx(mean - mean**2 - variance, rel=1e-6)


def test_an_attempt_without_a_score_is_no_failure():
    assert count_passes(rewards("a", 2, 1, errored=5)) == {"a": (2, 1)}


def test_attempts_count_half_after_a_half_life():
    rates = note(PassRates(), rewards("a", 3, 1), round=0)
    assert believe("a", rates, round=10, half_life=10) == Belief(1 + 1.5, 1 + 0.5)
    # noted again in round 10: 3/2 + 1 passes, 1/2 + 3 failures
    again = note(rates, rewards("a", 1, 3), round=10)
    assert again.own["a"] == (2.5, 3.5, 10)
    assert believe("b", again, round=10, half_life=10) == Belief(1, 1)


def test_a_solved_task_retires_and_a_failure_brings_it_back():
    rates = note(PassRates(), rewards("a", 8, 0), round=0)  # Beta(9, 1) has a mean of 0.9
    assert rates.retired == ("a",)
    assert note(PassRates(), rewards("a", 7, 0), round=0).retired == ()  # 8/9
    assert note(rates, rewards("b", 1, 0), round=1).retired == ("a",)  # no attempt has shown otherwise
    assert note(rates, rewards("a", 7, 1), round=1).retired == ()


def test_none_retires_at_1():
    assert note(PassRates(), rewards("a", 10_000, 0), round=0, retire_at=1.0).retired == ()


def test_rates_are_the_same_after_storing():
    rates = note(note(PassRates(), rewards("a", 3, 1), round=0), rewards("a", 8, 0), round=7)
    assert TypeAdapter(PassRates).validate_python(json.loads(json.dumps(asdict(rates)))) == rates

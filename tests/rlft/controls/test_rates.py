"""Which learning rates a control tries, and which of them is the best."""

from __future__ import annotations

import dataclasses

from rlft.controls.best import Candidate
from rlft.controls.rates import FACTORS, rate_after_trials, usual_rate
from tests.factories import make_policy


def test_the_usual_rate_is_that_of_the_kind_of_policy():
    policy = make_policy()
    assert usual_rate(policy) == 1e-3
    policy.metadata = dataclasses.replace(policy.metadata, base_model="some/model")
    assert usual_rate(policy) == 1e-5
    policy.metadata = dataclasses.replace(policy.metadata, kind="adapter")
    assert usual_rate(policy) == 2e-4


def test_after_trials_it_is_that_of_the_best_one_and_the_lowest_if_all_went_wrong():
    assert FACTORS[0] == 1.0  # the middle one is tried first, so that a tie is its
    assert rate_after_trials(Candidate(3.0, 5, 0.5), 1.0) == 3.0
    assert rate_after_trials(None, 1.0) == 1 / 3

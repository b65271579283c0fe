"""The ids and names that earlier runs have stored, and that what makes them keeps to them."""

from __future__ import annotations

import pytest

from mlops.ids import (
    is_name_of_attempt,
    name_of_first,
    resumed_name,
    round_name,
    round_of,
)


@pytest.mark.parametrize(
    ("round", "name"),
    [(0, "r000"), (1000, "r1000"), ("0", "r000"), ("12", "r012"), ("r3", "r003"), ("r003", "r003"), ("1000", "r1000"),
     ("baseline", "baseline"), ("validation_r001", "validation_r001"), ("final", "trained")],
)  # fmt: skip
def test_a_round_by_number_or_name(round, name):
    assert round_name(round) == name


@pytest.mark.parametrize(
    ("step", "number"),
    [
        ("generate_rollouts_r000", 0),
        ("score_rewards_r007", 7),
        ("train_grpo_r1234", 1234),
        ("generate_rollouts_validation_r007", None),
        ("generate_rollouts_baseline", None),
        ("score_rewards_trained", None),
        ("initialize_policy", None),
    ],
)
def test_the_round_of_a_step(step, number):
    assert round_of(step) == number


def test_names_of_later_attempts_lead_to_the_first():
    resumed = resumed_name("lower-rate", ["lower-rate"])
    assert resumed == "lower-rate-resumed-1"
    assert name_of_first(resumed) == name_of_first("lower-rate") == "lower-rate"
    assert [is_name_of_attempt(name) for name in (resumed, "lower-rate")] == [True, False]


def test_two_who_resume_at_once_get_the_same_name_and_later_ones_the_next():
    names = ["lower", "lower-resumed-101112-000001", "lower-resumed-2", "lower-resumed-10", "other-resumed-50"]
    assert resumed_name("lower", names[:1]) == resumed_name("lower", names[:2]) == "lower-resumed-1"
    assert resumed_name("lower", names) == "lower-resumed-11"  # by number, and whatever order they are in
    assert name_of_first("lower-resumed-11") == "lower"

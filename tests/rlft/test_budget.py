"""When training ends for its budget: before the round that would pass a bound."""

import pytest

from rlft.config.training import BudgetConfig
from rlft.evaluation.stopping import TOKENS, Account
from rlft.types import TrainReport


def report(**metrics: float) -> TrainReport:
    return TrainReport(0, {TOKENS: 1000.0, **metrics}, {"a": "trained"}, 1, 1.0, None)


@pytest.mark.parametrize(
    ("budget", "rounds", "said"),
    [
        # 60 s before the rounds, and 120 s a round: after four rounds 540 s are 9 minutes, and a fifth would make 11.
        ({"minutes": 10}, 4, "budget: 9 of 10 minutes are spent, and one more round would take up to 2"),
        ({"minutes": 11}, 5, "budget: 11 of 11 minutes are spent, and one more round would take up to 2"),
        # two GPUs: a round takes 1/15 hours of them; 60 + 4 * 120 s are 0.3 GPU-hours
        (
            {"gpu_hours": 0.35},
            4,
            "budget: 0.3 of 0.35 GPU-hours are spent, and one more round would take up to 0.06667",
        ),
        ({"tokens": 3500}, 3, "budget: 3,000 of 3,500 tokens are spent, and one more round would take up to 1,000"),
        ({"tokens": 3500, "minutes": 5}, 2, "budget: 5 of 5 minutes are spent, and one more round would take up to 2"),
        ({}, 20, ""),
    ],
)
def test_training_ends_before_the_round_that_would_pass_a_bound(budget, rounds, said):
    account = Account(BudgetConfig(**budget), gpus=2, seconds=60.0)
    number = 0
    while not account.reason_to_end() and number < 20:
        account.add_round(report(), 120.0, 0.0)
        number += 1
    assert (number, account.reason_to_end()) == (rounds, said)


def test_the_validation_after_the_last_round_has_its_place_in_the_budget():
    account = Account(BudgetConfig(minutes=10))
    account.add_validation(150.0)
    account.add_round(report(), 240.0, 240.0)
    # 390 s are 6.5 minutes; a round of 4 and a validation of 2.5 would pass 10
    assert account.reason_to_end() == "budget: 6.5 of 10 minutes are spent, and one more round would take up to 6.5"


def test_a_round_from_the_cache_counts_as_what_it_once_took():
    account = Account(BudgetConfig(minutes=10))
    account.add_round(report(), 0.5, worked=300.0)
    assert (account.seconds, account.dearest_seconds) == (300.0, 300.0)


def test_a_round_that_is_sampled_ahead_is_asked_for_together_with_the_one_before_it():
    account = Account(BudgetConfig(tokens=3500))
    account.add_round(report(), 1.0, 1.0)
    assert account.reason_to_end(more=2) == ""  # 1,000 + 2 * 1,000
    account.add_round(report(), 1.0, 1.0)
    assert account.reason_to_end() == ""
    assert account.reason_to_end(more=2) == (
        "budget: 2,000 of 3,500 tokens are spent, and two more rounds would take up to 2,000"
    )


def test_a_validation_follows_two_rounds_once():
    account = Account(BudgetConfig(minutes=10))
    account.add_validation(60.0)
    account.add_round(report(), 180.0, 0.0)
    assert account.reason_to_end(more=2).endswith("4 of 10 minutes are spent, and two more rounds would take up to 7")


def test_a_round_that_is_sampled_already_takes_its_own_tokens_and_no_others():
    account = Account(BudgetConfig(tokens=1500))
    account.add_round(report(), 1.0, 1.0)
    assert account.reason_to_end() != ""  # another of 1,000
    assert account.reason_to_end(ahead=500.0) == ""
    said = "budget: 1,501 of 1,500 tokens are spent, 501 of them on the round that was sampled ahead"
    assert account.reason_to_end(ahead=501.0) == said
    account.budget = BudgetConfig(tokens=9000, minutes=1)
    account.seconds = 60.0
    assert account.reason_to_end(ahead=501.0).startswith("budget: 1 of 1 minutes are spent")

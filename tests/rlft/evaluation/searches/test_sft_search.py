"""The search keeps to its budget and the best validated checkpoint, repeats itself, and outlives a bad rate."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rlft.config import WarmStartConfig
from rlft.evaluation.searches import sft as module
from rlft.evaluation.searches.sft import Search
from rlft.evaluation.searches.validator import Terms
from rlft.harness.chat.conversation import open_chat
from rlft.training.demonstration_file import Demonstration
from rlft.types import EvaluationReport
from tests.factories import make_policy, user

SUMS = [
    Demonstration((user(f"{a}+{b}="),), ({"role": "assistant", "content": str(a + b)},))
    for a in range(5)
    for b in range(5)
]
VALIDATION = 1e6


class FakeValidator:
    """Gives the validations these accuracies in turn, the last one for ever, and keeps the weights that it saw."""

    metric = "accuracy"

    def __init__(self, *scores):
        self.scores, self.seen = list(scores), []

    def validate(self, policy):
        score = self.scores.pop(0) if len(self.scores) > 1 else self.scores[0]
        self.seen.append(weights(policy))
        scores = {"accuracy": {"t": score}}
        interval = SimpleNamespace(mean=score)
        return EvaluationReport("validation", "", 1, {"accuracy": interval}, scores), VALIDATION


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.model.parameters()])


GOLD = {"gold": SUMS}


def searched(validator, budget, rate=1e-3, policy=None, shown=GOLD):
    policy = policy or make_policy()
    settings = WarmStartConfig(steps=1, batch_size=8, warmup_steps=2)
    terms = Terms(warm_start=settings, flops=budget, validation_flops=VALIDATION)
    search = Search(policy, shown, validator, open_chat(policy.tokenizer), terms, 0)
    search.run(rate)
    return policy, search


def step_flops():
    """What a step costs at most: prompts of 5 tokens with marks, answers of 1 and the end token."""
    _, search = searched(FakeValidator(0.5), 1.0)
    return search.spent - VALIDATION


def test_the_best_rate_of_the_trials_gets_the_long_training():
    # trials at the rate, a third and three times; the third wins, and of the long training the second checkpoint
    validator = FakeValidator(0.3, 0.5, 0.4, 0.45, 0.6, 0.55, 0.5)
    budget = 90 * step_flops() + 7 * VALIDATION
    policy, search = searched(validator, budget)
    rates = [candidate.learning_rate for candidate in search.best.candidates]
    assert rates == pytest.approx([1e-3, 1e-3 / 3, 3e-3] + 4 * [1e-3 / 3])
    assert search.best.chosen is not None
    assert search.best.chosen.validation == 0.6
    assert torch.equal(weights(policy), validator.seen[4])
    assert 0.9 * budget < search.spent <= budget


@pytest.mark.slow
def test_it_repeats_itself():
    budget = 90 * step_flops() + 7 * VALIDATION
    (one, first), (two, second) = (searched(FakeValidator(0.3, 0.5), budget) for _ in range(2))
    assert torch.equal(weights(one), weights(two))
    assert (first.best.candidates, first.spent, first.best.losses) == (
        second.best.candidates,
        second.spent,
        second.best.losses,
    )


def test_a_small_budget_goes_to_the_given_rate():
    _, search = searched(FakeValidator(0.3), 20 * step_flops() + VALIDATION)
    assert [candidate.learning_rate for candidate in search.best.candidates] == [1e-3]
    assert search.best.candidates[0].steps >= 20


def test_no_training_is_longer_than_so_many_epochs(monkeypatch):
    monkeypatch.setattr(module, "EPOCHS", 4)
    _, search = searched(FakeValidator(0.3, 0.4), 1000 * step_flops())
    assert max(candidate.steps for candidate in search.best.candidates) == 13  # 4 * 25 / 8 = 12.5


def test_a_rate_whose_numbers_go_wrong_is_left_out(monkeypatch):
    train = module.train_sft

    def failing(*given, **options):
        if given[2].learning_rate > 2e-3:
            raise module.PolicyError("the loss of step 1 is nan", where="warm_start", fix="lower it")
        return train(*given, **options)

    monkeypatch.setattr(module, "train_sft", failing)
    _, search = searched(FakeValidator(0.3), 90 * step_flops() + 7 * VALIDATION)
    failed = [candidate for candidate in search.best.candidates if candidate.validation is None]
    assert [candidate.learning_rate for candidate in failed] == pytest.approx([3e-3])
    assert search.best.chosen is not None


WRONG = [Demonstration(shown.prompt, ({"role": "assistant", "content": "0"},)) for shown in SUMS]
BOTH = {"gold": SUMS, "demonstration": WRONG}


@pytest.mark.slow
def test_both_kinds_of_answers_are_tried_and_the_better_one_gets_the_other_rates_and_the_long_training():
    budget = 90 * step_flops() + 8 * VALIDATION
    _, search = searched(FakeValidator(0.3, 0.5, 0.4, 0.45, 0.6), budget, shown=BOTH)
    found = [(each.form, each.learning_rate) for each in search.best.candidates]
    assert [form for form, _ in found] == ["gold"] + 7 * ["demonstration"]
    assert [rate for _, rate in found] == pytest.approx([1e-3, 1e-3, 1e-3 / 3, 3e-3] + 4 * [1e-3])
    assert search.answers == "demonstration"
    assert 0.9 * budget < search.spent <= budget
    # of a tie the gold answers are taken
    _, search = searched(FakeValidator(0.3), budget, shown=BOTH)
    assert {each.form for each in search.best.candidates[2:]} == {"gold"}


def test_a_small_budget_goes_to_both_kinds_of_answers_and_never_beyond():
    budget = 20 * step_flops() + 2 * VALIDATION
    _, search = searched(FakeValidator(0.3, 0.5), budget, shown=BOTH)
    found = search.best.candidates
    assert [(each.form, each.learning_rate) for each in found] == [("gold", 1e-3), ("demonstration", 1e-3)]
    assert (search.answers, min(each.steps for each in found) >= 10) == ("demonstration", True)
    assert search.spent <= budget
    _, search = searched(FakeValidator(0.3), step_flops() + VALIDATION, shown=BOTH)
    assert [each.form for each in search.best.candidates] == ["gold"]  # a step at least, and no second one

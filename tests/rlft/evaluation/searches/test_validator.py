"""Which learning rates a control tries, and which checkpoint is its best."""

from __future__ import annotations

import dataclasses

import torch

from rlft.evaluation.searches.validator import FACTORS, Best, Candidate, rate_after_trials, usual_rate
from rlft.types import EvaluationReport, Interval
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


class FakeValidator:
    """Gives the validations these accuracies in turn; `None` is one in which nothing was scored."""

    metric = "accuracy"

    def __init__(self, *means):
        self.means = list(means)

    def validate(self, policy):
        mean = self.means.pop(0)
        if mean is None:
            return EvaluationReport("validation", "", 1, {}, {}), 7.0
        scores = {"accuracy": Interval(mean, 0.0, 1.0, 1)}
        return EvaluationReport("validation", "", 1, scores, {"accuracy": {"t": mean}}), 7.0


def weights(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


def test_the_first_of_equally_good_checkpoints_is_kept_and_each_form_has_one_of_its_own():
    policy = make_policy()
    best, seen = Best(policy, FakeValidator(None, 0.25, 0.5, 0.5, 0.25)), []
    for rate, form in ((1, "full"), (2, "full"), (3, "best"), (4, "best"), (5, "full")):
        with torch.no_grad():
            next(iter(policy.trainable().values())).add_(1.0)
        seen.append(weights(policy))
        assert best.validate(float(rate), [0.1] * rate, form=form) == 7.0
    assert best.leading() is best.chosen
    assert (best.chosen.learning_rate, best.losses) == (3.0, (0.1, 0.1, 0.1))
    assert best.leading("full").learning_rate == 2.0
    assert best.leading("best").learning_rate == 3.0
    assert best.leading("other") is None
    best.restore()
    assert torch.equal(weights(policy), seen[2])


def test_without_any_score_there_is_no_best_one():
    best = Best(make_policy(), FakeValidator(None))
    best.validate(1.0, [])
    assert (best.chosen, best.leading()) == (None, None)
    assert best.candidates[0].validation is None

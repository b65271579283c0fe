"""Which checkpoint of a control is the best one, whatever the others are."""

from __future__ import annotations

import torch

from rlft.controls.best import Best
from rlft.types import EvaluationReport, Interval
from tests.factories import make_policy


class FakeJudge:
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
    best, seen = Best(policy, FakeJudge(None, 0.25, 0.5, 0.5, 0.25)), []
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
    best = Best(make_policy(), FakeJudge(None))
    best.validate(1.0, [])
    assert (best.chosen, best.leading()) == (None, None)
    assert best.candidates[0].validation is None

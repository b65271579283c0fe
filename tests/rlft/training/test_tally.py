"""Sums over parts become means over all that was counted, by value."""

import math

import pytest
import torch

from rlft.training.batching import pad_rows
from rlft.training.loss import LossReport
from rlft.training.tally import Tally
from tests.factories import make_rollout

DIFFERENCE, RATIO = "sampling/sampling_logp_difference", "sampling/importance_sampling_ratio"


def report(tokens, ratios=None, low=0.0, high=0.0, kl=0.0):
    return LossReport(torch.zeros(()), tokens, ratios or tokens, low, high, kl, None)


def batch_of(*logprobs):
    """Rollouts whose tokens the engine gave these log-probabilities."""
    pairs = [(make_rollout(prompt=[3], completion=[4] * len(row), logprobs=row), 0.0) for row in logprobs]
    return pad_rows(pairs, torch.device("cpu"))


def test_parts_weigh_as_much_as_their_tokens():
    tally = Tally()
    tally.note_part(report(3, low=1, high=1, kl=0.6), torch.tensor([[1.0, 2.0, 3.0]]))
    tally.note_part(report(1, high=1, kl=1.4), torch.tensor([[4.0]]))
    # 4 tokens: entropy 10 / 4, kl 2 / 4, clipped 1 / 4 below and 2 / 4 above
    assert tally.metrics(with_kl=True) == pytest.approx(
        {
            "entropy": 2.5,
            "kl": 0.5,
            "clip_ratio/low_mean": 0.25,
            "clip_ratio/high_mean": 0.5,
            "clip_ratio/region_mean": 0.75,
        }
    )
    assert "kl" not in tally.metrics(with_kl=False)


def test_ratios_of_sequences_are_counted_apart_from_tokens():
    tally = Tally()
    tally.note_part(report(10, ratios=4, low=2, high=1, kl=5), torch.full((1, 10), 0.5))
    found = tally.metrics(with_kl=True)
    assert [found[f"clip_ratio/{name}_mean"] for name in ("low", "high", "region")] == [0.5, 0.25, 0.75]
    assert (found["kl"], found["entropy"]) == (0.5, 0.5)


def test_updates_are_averaged():
    tally = Tally()
    tally.note_update(grad_norm=1.0, policy_loss=-2.0)
    tally.note_update(grad_norm=3.0, policy_loss=2.0)
    tally.note_update(kl_update=0.5)
    assert tally.metrics(with_kl=False) == {"grad_norm": 2.0, "policy_loss": 0.0, "kl_update": 0.5}


def test_trainer_and_engine_compared():
    tally = Tally()
    # differences ln 2, 0 and, in the other part, -ln 4: ratios 2, 1, 1/4
    tally.note_sampling(torch.tensor([[math.log(2) - 1, -1.0]]), batch_of([-1.0, -1.0]), None)
    tally.note_sampling(torch.tensor([[-1.0 - math.log(4)]]), batch_of([-1.0]), None)
    assert tally.metrics(with_kl=False) == pytest.approx(
        {
            f"{DIFFERENCE}/mean": (math.log(2) + math.log(4)) / 3,
            f"{DIFFERENCE}/max": math.log(4),
            f"{RATIO}/min": 0.25,
            f"{RATIO}/max": 2.0,
            f"{RATIO}/mean": 3.25 / 3,
            # the rollouts weigh 2 * 1 and 1/4: (2.25)^2 / (2 * (4 + 1/16))
            "sampling/effective_sample_ratio": 5.0625 / 8.125,
            "sampling/mean_weight": 2.25 / 2,
        },
        abs=1e-6,
    )


def test_the_ratios_that_the_loss_used_count_and_not_those_of_the_tokens():
    # one ratio for a sequence of two tokens, already cut down to 1.5
    tally = Tally()
    tally.note_sampling(torch.tensor([[0.0, 0.0]]), batch_of([-1.0, -1.0]), torch.tensor([1.5]))
    found = tally.metrics(with_kl=False)
    assert [found[f"{RATIO}/{name}"] for name in ("min", "mean", "max")] == [1.5, 1.5, 1.5]
    assert found[f"{DIFFERENCE}/mean"] == 1.0


def test_what_stands_outside_the_mask_is_not_compared():
    tally = Tally()
    tally.note_sampling(torch.tensor([[-1.0, 99.0], [-2.0, -2.0]]), batch_of([-1.0], [-2.0, -2.0]), None)
    assert tally.metrics(with_kl=False)[f"{DIFFERENCE}/max"] == 0


def test_a_number_that_is_none_shows():
    tally = Tally()
    tally.note_sampling(torch.tensor([[math.nan, -1.0]]), batch_of([-1.0, -1.0]), None)
    tally.note_sampling(torch.tensor([[0.0]]), batch_of([-1.0]), None)
    assert math.isnan(tally.metrics(with_kl=False)[f"{DIFFERENCE}/max"])


def test_nothing_noted_nothing_said():
    assert Tally().metrics(with_kl=True) == {}
    tally = Tally()
    tally.note_part(report(0), torch.zeros(1, 1))
    tally.note_sampling(torch.zeros(1, 0), batch_of([]), None)
    assert tally.metrics(with_kl=True) == {}


@pytest.mark.parametrize(
    ("correction", "share"), [("sequence_truncate", 1 / 2), ("token_truncate", 1 / 3), (None, None)]
)
def test_weights_above_the_cap_are_counted(correction, share):
    # Rollouts of ratios 4 * 0.9 and 0.5: above 3 are one of two rollouts, and one of three tokens.
    tally = Tally(correction, 3.0)
    logs = torch.tensor([[math.log(4.0), math.log(0.9)], [math.log(0.5), 0.0]])
    tally.note_sampling(logs - 1.0, batch_of([-1.0, -1.0], [-1.0]), None)
    found = tally.metrics(with_kl=False)
    assert found.get("sampling/capped_ratio") == (None if share is None else pytest.approx(share))

"""What a worker of a world is given and told; teams of several processes are in tests/rlft/distributed."""

import math

import pytest
import torch

from rlft.errors import DistributedError
from rlft.training.loss import LossReport
from rlft.training.tally import Tally
from rlft.training.trainer import Updater
from rlft.training.world import ALONE, World
from tests.factories import make_policy, make_training


class Pretended(World):
    """A world of two whose other worker says what it was told to."""

    size = 2

    def __init__(self, *answers):
        self.answers = list(answers)

    def gather(self, numbers):
        return [list(numbers), self.answers.pop(0)]


def test_one_alone_changes_nothing():
    assert ALONE.total([0.1, 0.7]) == [0.1, 0.7]
    assert ALONE.level(["a", "b"]) == ["a", "b"]
    tally = Tally()
    assert tally.together(ALONE) is tally


def test_sums_are_over_the_workers():
    assert Pretended([10.0, 20.0]).total([1.0, 2.0]) == [11.0, 22.0]


def test_who_has_fewer_parts_takes_part_for_nothing():
    assert Pretended([3.0]).level(["a"]) == ["a", None, None]
    assert Pretended([1.0]).level(["a", "b"]) == ["a", "b"]


def test_workers_whose_devices_read_the_model_differently_are_told():
    policy = make_policy()
    own = [float(policy.shares_prompts), float(len(policy.fusible))]
    ALONE.check_alike(policy)
    Pretended(own).check_alike(policy)
    for other in ([1.0 - own[0], own[1]], [own[0], own[1] + 1]):
        with pytest.raises(DistributedError, match="the trainers' devices do not compute this model alike") as caught:
            Pretended(other).check_alike(policy)
        assert f"trainer 2: {'shared' if other[0] else 'separate'} prompts, {other[1]:g} fused" in caught.value.what


def test_a_round_begins_by_comparing_them():
    with pytest.raises(DistributedError, match="alike"):
        Updater(
            make_policy(),
            make_training(),
            temperature=1.0,
            max_completion_length=4,
            reference=None,
            world=Pretended([-1.0, -1.0]),
        )


def noted(entropy, **changes):
    fields = {"loss": torch.zeros(()), "tokens": 4.0, "ratios": 4.0, "clipped_low": 1.0, "clipped_high": 0.0, "kl": 2.0}
    tally = Tally()
    tally.note_part(LossReport(**fields, importance_sampling_ratio=None), torch.tensor([[entropy]]))
    for name, value in changes.items():
        setattr(tally, name, value)
    return tally


def both(one, other):
    """The tally of two workers, as the first of them gets it."""
    asked = []

    class Listening(World):
        size = 2

        def gather(self, numbers):
            asked.append(list(numbers))
            return [list(numbers)] * 2

    other.together(Listening())
    return one.together(Pretended(*asked))


def test_metrics_are_means_over_the_tokens_of_all_workers():
    # entropies 2 over 4 tokens and 6 over 4 tokens: 8 / 8
    one, other = noted(2.0), noted(6.0)
    one.note_update(policy_loss=0.25)
    found = both(one, other).metrics(with_kl=True)
    assert found["entropy"] == 1.0
    assert found["clip_ratio/low_mean"] == 0.25
    assert found["kl"] == 0.5
    assert found["policy_loss"] == 0.25  # of the update, which all workers note alike


def test_bounds_and_weights_are_those_of_all_workers():
    one = noted(1.0, ratio_bounds=(0.5, 1.5), largest_difference=0.2, log_weights=[0.0])
    other = noted(1.0, ratio_bounds=(0.7, 2.0), largest_difference=math.nan, log_weights=[-1.0, 1.0])
    for tally in (one, other):
        tally.sums.update(compared=4, engine_ratio=4.0, engine_ratios=4, differences=1.0)
    found = both(one, other)
    assert found.ratio_bounds == (0.5, 2.0)
    assert math.isnan(found.largest_difference)
    assert found.log_weights == [0.0, -1.0, 1.0]
    assert found.mean_difference == 0.25


def test_a_worker_that_compared_nothing_has_no_bounds():
    one = noted(1.0, ratio_bounds=(0.5, 1.5))
    one.sums.update(compared=4)
    assert both(one, Tally()).ratio_bounds == (0.5, 1.5)
    assert both(Tally(), Tally()).ratio_bounds is None

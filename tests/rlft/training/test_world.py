"""What a worker of a world is given and told; teams of several processes are in tests/rlft/distributed."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.errors import DistributedError
from rlft.training.batching import ALONE, World, packed_tokens, partition
from rlft.training.loss import LossReport
from rlft.training.tally import Tally
from rlft.training.trainer import Updater
from tests.factories import make_policy, make_rollout, make_training


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
        with pytest.raises(DistributedError, match="do not compute this model alike") as caught:
            Pretended(other).check_alike(policy)
        assert caught.value.where == "distributed"
        assert str([own, other]) in caught.value.what


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


def make_group(task, prompt, lengths):
    return [
        (make_rollout(f"t{task}", sample, prompt=[4] * prompt, completion=[5] * length), 1.0)
        for sample, length in enumerate(lengths)
    ]


GROUPS = st.lists(st.tuples(st.integers(1, 30), st.lists(st.integers(1, 30), min_size=1, max_size=6)), max_size=12).map(
    lambda sizes: [make_group(task, *size) for task, size in enumerate(sizes)]
)


@given(GROUPS, st.integers(1, 5), st.booleans())
def test_every_group_is_whole_with_one_worker_in_its_order(groups, workers, shares_prompts):
    divided = partition(groups, workers, shares_prompts=shares_prompts)
    assert len(divided) == workers
    ids = [[[rollout.rollout_id for rollout, _ in group] for group in mine] for mine in divided]
    expected = [[rollout.rollout_id for rollout, _ in group] for group in groups]
    assert sorted(group for mine in ids for group in mine) == sorted(expected)
    for mine in ids:
        places = [expected.index(group) for group in mine]
        assert places == sorted(places)


@given(GROUPS, st.integers(1, 5))
def test_no_worker_has_more_than_a_fair_share_and_one_group(groups, workers):
    # The worker with most was, before its last group, one with fewest tokens: at most the mean of what was given away.
    costs = [packed_tokens(group) for group in groups]
    loads = [sum(map(packed_tokens, mine)) for mine in partition(groups, workers, shares_prompts=True)]
    assert max(loads) <= sum(costs) / workers + max(costs, default=0)


def test_a_prompt_counts_once_where_it_is_shared():
    # A completion of 2 has 1 token to encode after the prompt. Shared: 20 + 6, against 12 + 1 and 12 + 1: the two that
    # are smaller go together. A row per completion: 6 * 22 = 132, against 14 and 14, and so the same; with one rollout
    # less on either side of a tie the first worker is taken.
    first, second, third = make_group(0, 20, [2] * 6), make_group(1, 12, [2]), make_group(2, 12, [2])
    assert partition([second, first, third], 2, shares_prompts=True) == [[first], [second, third]]
    # Shared 20 + 3 = 23 is less than 30 + 1 = 31; as rows 3 * 22 = 66 is more than 32: another goes to the third.
    many, one, last = make_group(0, 20, [2] * 3), make_group(1, 30, [2]), make_group(2, 3, [2])
    assert partition([many, one, last], 2, shares_prompts=True) == [[one], [many, last]]
    assert partition([many, one, last], 2, shares_prompts=False) == [[many], [one, last]]


def test_a_worker_may_have_no_rollout():
    group = make_group(0, 3, [2, 2])
    assert partition([group], 3, shares_prompts=True) == [[group], [], []]
    assert partition([], 2, shares_prompts=True) == [[], []]

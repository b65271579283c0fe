"""What a policy imitates of its own attempts, what a step on these does, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlft.errors import PolicyError
from rlft.evaluation.searches.rejection import RoundCost
from rlft.models.flops import ROLLOUT_FLOPS, sampling_costs, shape_of, training_flops
from rlft.training.imitation import Imitator, Memory
from rlft.types import Rollouts
from tests.factories import make_policy, make_rollout


def cross_entropy(policy, rollouts):
    """The mean over sampled tokens, from plain logits of each rollout by itself."""
    sums, count = [], 0
    for rollout in rollouts:
        ids = torch.as_tensor(rollout.token_ids, dtype=torch.int64)
        logprobs = policy.model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
        taken = logprobs.gather(1, ids[1:, None])[:, 0]
        mask = torch.as_tensor(rollout.loss_mask[1:])
        sums.append(-taken[mask].sum())
        count += int(mask.sum())
    return float((sum(sums) / count).detach())


ROLLOUTS = [
    make_rollout("a", 0, completion=(5, 1)),
    make_rollout("a", 1, completion=(6, 7, 1)),
    make_rollout("b", 0, prompt=(4, 4, 14), completion=(9,)),
    # of two turns: the tokens between them are read and not imitated
    make_rollout("c", 0, completion=(5, 4, 8, 1), loss_mask=np.array([False] * 4 + [True, False, True, True])),
]


@pytest.mark.parametrize("budget", [None, 7])
@pytest.mark.parametrize("architecture", ["qwen3", "gpt2"])
def test_a_step_is_one_of_cross_entropy_on_the_sampled_tokens_whatever_the_parts(architecture, budget):
    policy = make_policy(architecture, sharpness=3.0)
    expected = cross_entropy(policy, ROLLOUTS)
    imitator = Imitator(policy, memory=Memory(token_budget=budget))
    before = policy.identity
    for _ in range(20):
        imitator.step(ROLLOUTS, 1e-2)
    assert imitator.state.losses[0] == pytest.approx(expected, rel=1e-5)
    assert imitator.state.losses[-1] < 0.5 * imitator.state.losses[0]
    assert policy.identity != before


def test_a_step_costs_what_training_on_its_rollouts_costs():
    policy = make_policy()
    imitator = Imitator(policy)
    one = training_flops(shape_of(policy.model), ROLLOUTS, updates=1, iterations=1, shares_prompts=True)
    assert imitator.flops(ROLLOUTS) == one
    assert imitator.flops(ROLLOUTS[:1]) < one


def test_numbers_that_go_wrong_reach_no_weight():
    policy = make_policy()
    next(iter(policy.trainable().values())).data[0] = torch.nan
    kept = [parameter.detach().clone() for parameter in policy.trainable().values()]
    with pytest.raises(PolicyError, match="the loss of step 1 is nan"):
        Imitator(policy).step(ROLLOUTS, 1e-2)
    after = policy.trainable().values()
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(kept, after, strict=True))


def test_a_round_is_foretold_from_another():
    # was 10 + 3 * 2 + 8 = 24, of which 1 is the beginning
    cost = RoundCost(beginning=1.0, first=10.0, further=2.0, training=8.0, tasks=5, group=4)
    assert cost.of(5, 4, "full") == cost.of(5, 4, "best") == 24
    assert cost.of(5, 2, "full") == 10 + 2 + 4
    assert cost.of(10, 6, "best") == 1 + 2 * (9 + 10 + 8)
    assert cost.within(24, 5, 8, "full") == (5, 4)
    assert cost.within(1000, 5, 8, "full") == (5, 8)
    assert cost.within(13, 5, 8, "full") == (4, 2)  # 5 tasks cost 16, so 4 cost 1 + 12
    assert cost.within(12.9, 5, 8, "full") == (3, 2)
    assert cost.within(3, 5, 8, "full") == (0, 2)
    assert cost.within(-1, 5, 8, "full") == (0, 2)
    assert RoundCost(0.0, 0.0, 0.0, 0.0, 5, 2).within(-1, 5, 8, "full") == (0, 2)  # attempts that failed without tokens


def test_what_a_round_costs_is_what_its_sampling_and_training_have_cost():
    policy = make_policy()
    shape = shape_of(policy.model)
    rows = tuple(make_rollout(task, sample, completion=(5, 1)) for task in ("a", "b") for sample in range(3))
    rollouts = Rollouts(rows, metrics=sampling_costs(shape, rows, shares_prompts=True))
    cost = RoundCost.measured(policy, rollouts, 2, 3, 7.0)
    length = rows[0].prompt_length  # of the prompt of both tasks, which is all that they have in common
    assert cost.beginning == shape.forward(length, 0, length**2) > 0
    assert cost.of(2, 3, "full") == rollouts.metrics[ROLLOUT_FLOPS] + 7
    two = [rollout for rollout in rows if rollout.sample < 2]  # all completions are of the same length
    assert cost.of(2, 2, "best") == pytest.approx(sampling_costs(shape, two, shares_prompts=True)[ROLLOUT_FLOPS] + 7)

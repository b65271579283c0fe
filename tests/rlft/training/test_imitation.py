"""Imitation is cross-entropy at the imitated tokens, whatever its parts, and costs what it computes: no padding."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rlft.models.flops import ModelShape, shape_of
from rlft.training.demonstrations import as_rollout
from rlft.training.imitation import Memory, imitate, imitation_flops
from tests.factories import ARCHITECTURES, make_policy


def rows_of(count, prompt=(3, 30), answer=(1, 6), tokens=range(4, 14), seed=0):
    """Rows of random tokens as supervised training reads them, the first two with the same prompt."""
    draw, rows = random.Random(seed), []
    for number in range(count):
        before = rows[0][0][: rows[0][1].index(True)] if number == 1 else draw.choices(tokens, k=draw.randint(*prompt))
        after = draw.choices(tokens, k=draw.randint(*answer))
        rows.append((before + after, [False] * len(before) + [True] * len(after)))
    return rows


def plain(policy, rows):
    """The mean cross-entropy and its gradient, from the model's own logits of each row by itself."""
    losses = []
    for ids, imitated in rows:
        logprobs = policy.model(input_ids=torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        chosen = logprobs.gather(1, torch.tensor(ids)[1:, None])[:, 0]
        losses.append(-chosen[torch.tensor(imitated[1:])])
    loss = torch.cat(losses).mean()
    loss.backward()
    return loss.item(), gradients(policy)


def gradients(policy):
    found = [parameter.grad.flatten().clone() for parameter in policy.trainable().values()]
    policy.model.zero_grad()
    return torch.cat(found)


@pytest.mark.parametrize("memory", [{}, {"token_budget": 40}, {"token_budget": 1}, {"checkpointing": True}])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loss_and_gradient_are_those_of_plain_cross_entropy(architecture, memory):
    policy, rows = make_policy(architecture, sharpness=3.0), rows_of(7)
    # two turns, of which the second prompt is read and not imitated, and a row whose first token cannot be predicted
    rows += [([4, 5, 6, 7, 8, 9], [False, True, True, False, False, True]), ([5, 6, 7], [True, True, True])]
    policy.model.eval()
    policy.find_out()
    expected, wanted = plain(policy, rows)
    loss = imitate(policy, [as_rollout(row, number) for number, row in enumerate(rows)], memory=Memory(**memory))
    assert loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients(policy), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_step_computes_what_is_counted_and_no_padding(architecture):
    # Torch counts no product of this kernel of attention, nor those in place of the head: what is left is the body.
    policy = make_policy(architecture, hidden_size=64, max_position_embeddings=256)
    policy.find_out()
    rollouts = [as_rollout(row, number) for number, row in enumerate(rows_of(8, prompt=(40, 120), answer=(2, 12)))]
    body = replace(shape_of(policy.model), head=0, trained_head=0, attention=0)
    with FlopCounterMode(display=False) as counter:
        imitate(policy, rollouts, memory=Memory(token_budget=100_000))
    expected = imitation_flops(body, rollouts, shares_prompts=policy.shares_prompts)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.05)


def test_logits_at_imitated_tokens_alone_and_no_padding_are_counted():
    # widths 3 and 2, of which the last token is never read: 2 tokens, 4 pairs, 2 predicted: 120 + 48 + 60 = 228; and
    # 1 token, 1 pair, 1 predicted: 60 + 12 + 30 = 102
    shape = ModelShape(body=10, head=5, trained_body=10, trained_head=5, attention=1)
    rows = [([1, 2, 3], [False, True, True]), ([4, 2], [False, True])]
    rollouts = [as_rollout(row, number) for number, row in enumerate(rows)]
    assert imitation_flops(shape, rollouts, shares_prompts=True) == 228 + 102
    same = [as_rollout(row, number) for number, row in enumerate([rows[0], ([1, 2], [False, True])])]
    # the prompt is read once, 60 + 12; of the first answer 1 token, 2 pairs, 2 predicted; of the second 1 is predicted
    assert imitation_flops(shape, same, shares_prompts=True) == 72 + 60 + 24 + 60 + 30


def test_a_batch_of_a_real_model_costs_no_more_than_it_needs():
    # Qwen2.5-0.5B, 64 prompts of 118 +- 40 tokens, answers of ten: padded, with logits everywhere, it cost 2.45 times
    shape = ModelShape(357_826_560, 136_134_656, 357_826_560, 136_134_656, 24 * 14 * 64)
    draw = random.Random(0)
    rows = [[5] * max(20, round(draw.gauss(118, 40))) for _ in range(64)]
    rollouts = [
        as_rollout((prompt + [number] * 10, [False] * len(prompt) + [True] * 10), number)
        for number, prompt in enumerate(rows)
    ]
    cost = sum(imitation_flops(shape, [row], shares_prompts=True) for row in rollouts)  # whatever else is in the batch
    assert imitation_flops(shape, rollouts, shares_prompts=False) == pytest.approx(cost, rel=0.01)
    width = max(len(prompt) for prompt in rows) + 10
    assert shape.training(64 * width, 64 * width, 64 * width**2) / cost == pytest.approx(2.45, abs=0.01)

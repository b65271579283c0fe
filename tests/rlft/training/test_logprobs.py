"""Log-probabilities, entropies and gradients are those of independent rows read by the model as it is."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from rlft.models.attention.interface import attending
from rlft.training.batching import pack_tree, pad_rows
from rlft.training.logprobs import _taken, gradient_checkpointing, token_logprobs
from tests.factories import make_rollout
from tests.rlft.models.small_models import FAMILIES, OTHERS, add_lora, alone, make_model, make_small_policy, tokens_read

CPU = torch.device("cpu")
WAYS = {"packed": pack_tree, "padded": pad_rows}
# By task: a prompt and its completions. One token, lengths far apart, several of one length; a group of one.
GROUPS = [
    ([4, 5, 6], [[7], [8, 9, 10, 11, 12, 13, 14, 15, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1], [5, 4, 3, 1], [9, 9, 9, 9]]),
    ([12], [[3, 4, 5, 6, 7, 8, 9], [3, 4, 5, 6, 7, 8, 1], [10, 1]]),
    ([7, 8, 9, 10, 11, 3, 4], [[13, 14, 1]]),
]
HOLES = {3: [True, True, False, True], 4: [True, False, False, True, True, False, True]}  # turns with tools between


def rollouts(*, groups=GROUPS, holes=True):
    found = []
    for task, (prompt, completions) in enumerate(groups):
        for completion in completions:
            sampled = HOLES.get(len(found)) if holes else None
            mask = [False] * len(prompt) + (sampled or [True] * len(completion))
            found.append(
                make_rollout(
                    f"t{task}", len(found), prompt=prompt, completion=completion, loss_mask=np.asarray(mask, dtype=bool)
                )
            )
    return found


def weights_of(rows, seed=0):
    """A number for every token, so that each has a gradient of its own."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(row.completion_length, generator=generator, dtype=torch.float64) for row in rows]


def expected(model, rows, temperature):
    """Log-probabilities, entropies and gradients row by row; the gradient is that of sum(weight * logprob)."""
    model.zero_grad(set_to_none=True)
    logprobs, entropies, total = [], [], torch.zeros(())
    for row, weight in zip(rows, weights_of(rows), strict=True):
        found, entropy = alone(model, row, temperature)
        sampled = torch.from_numpy(row.loss_mask[row.prompt_length :])
        total = total + (found * weight.to(found.dtype) * sampled).sum()
        logprobs.append(found.detach() * sampled)
        entropies.append(entropy * sampled)
    total.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return logprobs, entropies, gradients


def found(policy, rows, temperature, way="packed", *, checkpointing=False):
    """The same by `token_logprobs`."""
    batch = WAYS[way]([(row, 0.0) for row in rows], CPU)
    assert policy.split.body is not None  # found before the attention is switched, or the head would go unused
    packed = attending(policy.model) if batch.attention else nullcontext()
    with packed, gradient_checkpointing(policy.model, checkpointing):
        result = token_logprobs(policy, batch, temperature)
        weight = torch.zeros(batch.mask.shape, dtype=torch.float64)
        for line, values in zip(weight, weights_of(rows), strict=True):
            line[: len(values)] = values
        (result.logprobs * weight.to(result.logprobs.dtype)).sum().backward()
    gradients = {name: p.grad.clone() for name, p in policy.trainable().items() if p.grad is not None}
    policy.model.zero_grad(set_to_none=True)
    return result.logprobs.detach(), result.entropy, gradients


def assert_same(
    policy, rows, temperature=1.0, way="packed", *, tolerance=1e-5, gradient_tolerance=None, checkpointing=False
):
    logprobs, entropies, gradients = expected(policy.model, rows, temperature)
    ours = found(policy, rows, temperature, way, checkpointing=checkpointing)
    for number, row in enumerate(rows):
        length = row.completion_length
        torch.testing.assert_close(ours[0][number, :length], logprobs[number], rtol=0, atol=tolerance)
        torch.testing.assert_close(ours[1][number, :length], entropies[number], rtol=0, atol=tolerance)
        assert not ours[0][number, length:].any()
    assert ours[2].keys() == gradients.keys()
    assert max(g.abs().max() for g in gradients.values()) > 0.1
    for name, gradient in gradients.items():
        size = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(ours[2][name] / size, gradient / size, rtol=0, atol=gradient_tolerance or tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_rows_are_independent_ones(family, lora):
    policy = make_small_policy(family, lora=lora)
    assert policy.shares_prompts
    for temperature in (1.0, 0.7):
        for checkpointing in (False, True):
            assert_same(policy, rollouts(), temperature, checkpointing=checkpointing)


@pytest.mark.parametrize("family", FAMILIES)
def test_in_float64_to_the_ninth_place(family):
    # but for gradients through norms that Qwen, Llama and Gemma compute in float32 in any case
    policy = make_small_policy(family, dtype=torch.float64)
    tolerances = {"tolerance": 1e-9, "gradient_tolerance": 1e-9 if family == "gpt2" else 1e-5}
    assert_same(policy, rollouts(), 0.7, **tolerances)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma"])
def test_heads_that_share_keys(family, heads):
    assert_same(make_small_policy(family, num_key_value_heads=heads), rollouts())


def test_experts():
    policy = make_small_policy("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
    assert policy.shares_prompts
    assert_same(policy, rollouts(), 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_in_bfloat16_loosely(family, lora):
    # 8 bits of a number: log-probabilities within 0.1, gradients within a tenth of their length
    policy = make_small_policy(family, lora=lora, dtype=torch.bfloat16, sharpness=2.0)
    assert policy.shares_prompts
    logprobs, _, gradients = expected(policy.model, rollouts(), 1.0)
    ours = found(policy, rollouts(), 1.0)
    for number, plain in enumerate(logprobs):
        assert (ours[0][number, : len(plain)] - plain).abs().max() < 0.1
    ours_flat, flat = (torch.cat([g[name].double().flatten() for name in gradients]) for g in (ours[2], gradients))
    assert (ours_flat - flat).norm() < 0.1 * flat.norm()


@pytest.mark.parametrize("groups", [GROUPS[:1], GROUPS[1:2], GROUPS[2:], [([5], [[6]])], [([5, 4], [[6], [6], [6]])]])
def test_one_group(groups):
    assert_same(make_small_policy("qwen3"), rollouts(groups=groups, holes=False))


def test_one_prompt_in_two_tasks():
    rows = rollouts(groups=[([5, 4], [[6, 7], [8]]), ([5, 4], [[9, 10, 1]])], holes=False)
    assert_same(make_small_policy("qwen3"), rows)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_padded_rows_are_independent_ones(family):
    # windows of 4 tokens are shorter than the rows; bloom knows positions by distance, mamba by its state
    policy = make_small_policy(family)
    tolerance = 1e-4 if family == "mamba" else 1e-5  # its state is a sum over the past in float32
    assert_same(policy, rollouts(), 0.7, "padded", tolerance=tolerance)
    assert_same(policy, rollouts(), 1.0, "padded", tolerance=tolerance, checkpointing=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_completion_sees_neither_another_nor_another_group(family):
    policy = make_small_policy(family)
    rows = rollouts(holes=False)
    with torch.no_grad():
        before = token_logprobs(policy, pack_tree([(row, 0.0) for row in rows], CPU), 1.0).logprobs
        for number, row in enumerate(rows):
            tokens = row.token_ids.copy()
            tokens[row.prompt_length :] = 15 - tokens[row.prompt_length :] % 13
            changed = [
                *rows[:number],
                make_rollout(prompt=tokens[: row.prompt_length], completion=tokens[row.prompt_length :]),
                *rows[number + 1 :],
            ]
            after = token_logprobs(policy, pack_tree([(row, 0.0) for row in changed], CPU), 1.0).logprobs
            others = [place for place in range(len(rows)) if place != number]
            assert torch.equal(before[others], after[others])
            assert not torch.equal(before[number], after[number])


@pytest.mark.parametrize("way", WAYS)
def test_a_token_does_not_see_what_comes_after_it(way):
    policy = make_small_policy("qwen3")
    batches = (WAYS[way]([(make_rollout(prompt=[4, 5], completion=[6, token, 8]), 0.0)], CPU) for token in (7, 9))
    one, other = (token_logprobs(policy, batch, 1.0).logprobs[0] for batch in batches)
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])
    assert not torch.equal(one[2], other[2])


def test_what_begins_alike_is_read_once():
    policy = make_small_policy("qwen3")
    assert policy.shares_prompts
    assert policy.split.body is not None  # these read some tokens too, before anyone counts
    read = tokens_read(policy.model)
    pairs = [(row, 0.0) for row in rollouts(holes=False)]
    token_logprobs(policy, pack_tree(pairs, CPU), 1.0)
    # prompts of 3, 1 and 7; completions without their last token: 0 + 17 + 3 + 3, 6 (of two, then equal) + 1, 2
    assert read == [(True, 11 + 23 + 7 + 2)]


def test_entropy_only_where_it_is_asked_for():
    policy = make_small_policy("qwen3")
    batch = pack_tree([(row, 0.0) for row in rollouts()], CPU)
    assert token_logprobs(policy, batch, 1.0, with_entropy=False).entropy is None
    assert not token_logprobs(policy, batch, 1.0).entropy.requires_grad


@pytest.mark.parametrize("way", WAYS)
def test_nothing_sampled_at_all(way):
    policy = make_small_policy("qwen3")
    nothing = make_rollout(prompt=[4], completion=[5], loss_mask=np.asarray([False, False]))
    result = token_logprobs(policy, WAYS[way]([(nothing, 1.0)], CPU), 1.0)
    assert result.logprobs.tolist() == result.entropy.tolist() == [[0.0]]
    result.logprobs.sum().backward()
    assert not any(p.grad.any() for p in policy.model.parameters() if p.grad is not None)


def test_gradients_are_the_same_bits_each_time_with_several_threads():
    # Completions of one prompt are predicted from its last token. torch divides this many numbers among threads.
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4000, 64, generator=generator, requires_grad=True)
    places = torch.randint(0, 4000, (6000,), generator=generator)
    weights = torch.randn(6000, 64, generator=generator)
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        found = [torch.autograd.grad((_taken(hidden, places) * weights).sum(), hidden)[0] for _ in range(50)]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(found[0], again) for again in found[1:])


IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10]])


def first_layer(model):
    inner = getattr(model, "base_model", model)
    return next(layers for layers in inner.modules() if isinstance(layers, nn.ModuleList))[0]


def train_once(model, wanted):
    """The loss, the gradients, and how many numbers autograd kept on the way."""
    model.zero_grad(set_to_none=True)
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with gradient_checkpointing(model, wanted):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model(IDS, use_cache=False).logits
            on_the_way = sum(kept)
        loss = logits.log_softmax(-1)[0, :, 3].sum()
        loss.backward()
    return loss.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}, on_the_way


KINDS = [(family, lora) for family in (*FAMILIES, "opt", "bloom", "mistral") for lora in (False, True)]


@pytest.mark.parametrize(("family", "lora"), [*KINDS, ("mamba", False)])  # peft has no adapter for all of mamba
def test_the_same_gradients_from_less(family, lora):
    model = make_model(family)
    model = add_lora(model) if lora else model
    loss, gradients, kept = train_once(model, False)
    again, recomputed, less = train_once(model, True)
    assert again == loss
    assert recomputed.keys() == gradients.keys()
    assert all(torch.equal(recomputed[name], gradients[name]) for name in gradients)
    assert less < 0.5 * kept


def test_every_layer_is_computed_twice():
    model = make_model("qwen3")
    calls = []
    for number, layer in enumerate(model.model.layers):
        layer.mlp.register_forward_pre_hook(lambda *_, number=number: calls.append(number))
    train_once(model, False)
    assert calls == [0, 1]
    calls.clear()
    train_once(model, True)
    assert calls == [0, 1, 1, 0]


DROPOUTS = {
    "gpt2": {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5},
    "opt": {"dropout": 0.5, "attention_dropout": 0.5},  # its layers call dropout themselves, by their own flag
}


@pytest.mark.parametrize("family", DROPOUTS)
def test_no_dropout_and_no_random_numbers(family):
    model = make_model(family, **DROPOUTS[family])
    before = torch.random.get_rng_state()
    loss, gradients, _ = train_once(model, False)
    again, recomputed, _ = train_once(model, True)
    assert again == loss
    assert all(torch.equal(recomputed[name], gradients[name]) for name in gradients)
    assert torch.equal(torch.random.get_rng_state(), before)


def traces(model):
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
    flags = [(module.training, getattr(module, "gradient_checkpointing", False)) for module in model.modules()]
    return hooks, flags


@pytest.mark.parametrize("lora", [False, True])
def test_the_model_is_left_as_it_was(lora):
    model = make_model("qwen3")
    model = add_lora(model) if lora else model
    before = traces(model)
    for _ in range(3):
        train_once(model, True)
    assert traces(model) == before
    with pytest.raises(RuntimeError, match="out of memory"), gradient_checkpointing(model, True):
        raise RuntimeError("out of memory")
    assert traces(model) == before
    assert model.get_input_embeddings()(IDS).requires_grad != lora  # nothing asks frozen weights for gradients
    with torch.inference_mode():
        model(IDS)


def test_a_backward_pass_outside_leaves_the_flags_alone():
    model = make_model("qwen3")
    with gradient_checkpointing(model, True):
        loss = model(IDS, use_cache=False).logits.sum()
    before = traces(model)
    loss.backward()
    assert traces(model) == before
    assert not any(module.training for module in model.modules())


def test_not_wanted_nothing_happens():
    model = make_model("qwen3")
    before = traces(model)
    with gradient_checkpointing(model, False):
        assert traces(model) == before
    with gradient_checkpointing(nn.Linear(2, 2), False):
        pass


def test_a_model_that_cannot():
    with pytest.raises(ValueError, match=r"Linear cannot checkpoint; set training\.gradient_checkpointing to false"):
        gradient_checkpointing(nn.Linear(2, 2), True).__enter__()

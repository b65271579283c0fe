"""FLOPs from shapes and token counts: within 5 % of what torch counts, and by value for sampling and training."""

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from rlft.models.flops import ENCODED, OF_SEQUENCES, ROLLOUT_FLOPS, ModelShape, sampling_costs, shape_of, training_flops
from tests.factories import make_rollout

SIZES = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 6, "num_attention_heads": 4}
CONFIGS = {
    "qwen3": SIZES | {"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96},
    "llama": SIZES | {"num_key_value_heads": 4, "vocab_size": 96, "tie_word_embeddings": False},
    "gpt2": {"n_embd": 64, "n_layer": 6, "n_head": 4, "vocab_size": 96},
}
ROWS, WIDTH = 3, 40


def tiny(kind):
    config = AutoConfig.for_model(kind, **CONFIGS[kind])
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def counted(model, *, backward):
    ids = torch.randint(0, 96, (ROWS, WIDTH))
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        logits = model(input_ids=ids, use_cache=False).logits
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
def test_they_are_within_five_percent_of_what_torch_counts(kind, lora):
    model = tiny(kind)
    if lora:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    shape, tokens = shape_of(model), ROWS * WIDTH
    work = tokens, tokens, ROWS * WIDTH**2
    assert shape.forward(*work) == pytest.approx(counted(model, backward=False), rel=0.05)
    assert shape.training(*work) == pytest.approx(counted(model, backward=True), rel=0.05)


SHAPE = ModelShape(body=10, head=5, trained_body=10, trained_head=5, attention=1)


def rollout(number, mask):
    mask = np.array(mask, dtype=bool)
    return make_rollout(
        rollout_id=f"r{number}",
        task_id="t",
        token_ids=np.where(mask, number + 2, 1).astype(np.int32),  # completions differ from the first token on
        loss_mask=mask,
        logprobs=np.zeros(len(mask), dtype=np.float32),
        prompt_length=int(np.flatnonzero([*mask, True])[0]),
    )


def test_a_prompt_is_sampled_from_once_for_its_group():
    # the prompt: 2 * 10 * 3 + 2 * 5 * 1 + 4 * 9 = 106
    # two tokens, the first of which is read: 20 + 10 + 4 * (3 + 1) = 46
    one, two = rollout(1, [0, 0, 0, 1, 1]), rollout(2, [0, 0, 0, 1, 1])
    assert sampling_costs(SHAPE, [one], shares_prompts=True)[ROLLOUT_FLOPS] == 106 + 46
    assert sampling_costs(SHAPE, [one, two], shares_prompts=True)[ROLLOUT_FLOPS] == 106 + 2 * 46


def test_tokens_are_counted_as_encoded_and_as_the_sequences_have_them():
    # the prompt of 3 once, and of each completion of 2 the first; one by one twice 4 tokens, as the last is not read
    one, two = rollout(1, [0, 0, 0, 1, 1]), rollout(2, [0, 0, 0, 1, 1])
    costs = sampling_costs(SHAPE, [one, two], shares_prompts=True)
    assert (costs[ENCODED], costs[OF_SEQUENCES]) == (3 + 1 + 1, 4 + 4)
    # of two turns the second reads the first anew: 2 tokens, then 4; one by one 4
    costs = sampling_costs(SHAPE, [rollout(1, [0, 0, 1, 0, 1])], shares_prompts=True)
    assert (costs[ENCODED], costs[OF_SEQUENCES]) == (2 + 4, 4)


def test_a_later_turn_reads_everything_before_it():
    # first turn: 2 tokens of prompt, 40 + 10 + 16 = 66; then 4 tokens, 80 + 10 + 64 = 154; one token each, never read
    assert sampling_costs(SHAPE, [rollout(1, [0, 0, 1, 0, 1])], shares_prompts=True)[ROLLOUT_FLOPS] == 66 + 154


def test_turns_of_several_conversations_share_what_they_begin_with():
    # Two turns each, of one token. The prompt of 20 is read once. Before the second turn stand 22 tokens, the same in
    # two of the conversations; the third parts from them at 20, rounded down to 16. Without a tree only equal texts are
    # shared.
    rows = [rollout(number, [*[0] * 20, 1, 0, 1]) for number in (1, 1, 2)]
    assert sampling_costs(SHAPE, rows, shares_prompts=True)[ENCODED] == 20 + 22 + (22 - 16)
    assert sampling_costs(SHAPE, rows, shares_prompts=False)[ENCODED] == 20 + 22 + 22


def test_what_was_never_begun_costs_nothing():
    assert sampling_costs(SHAPE, [rollout(1, [0, 0, 0])], shares_prompts=True)[ENCODED] == 0


def test_an_update_reads_a_shared_prompt_once():
    # a completion: 1 token is read, 2 are predicted, 4 pairs: 6 * 10 + 6 * 5 * 2 + 12 * 4 = 168
    # the prompt: 3 tokens, 9 pairs: 6 * 10 * 3 + 12 * 9 = 288; read anew with it, 12 pairs: 180 + 144 = 324
    rows = [rollout(number, [0, 0, 0, 1, 1]) for number in range(3)]
    settings = {"updates": 2, "iterations": 1, "shares_prompts": True}
    assert training_flops(SHAPE, rows, **settings) == 3 * 168 + 2 * 288
    assert training_flops(SHAPE, rows, **settings | {"iterations": 2}) == 2 * (3 * 168 + 2 * 288)
    assert training_flops(SHAPE, rows, **settings | {"shares_prompts": False}) == 3 * (168 + 324)
    # a pass without gradients: 2 * 10 + 2 * 5 * 2 + 4 * 4 = 56 for a completion, 2 * 10 * 3 + 4 * 9 = 96 for a prompt
    assert training_flops(SHAPE, rows, **settings, readings=1) == 3 * (168 + 56) + 2 * (288 + 96)

"""That the benchmark of a step counts operations as its docstring says."""

import pytest

from benchmarks.grpo_operations import Need, training_operations
from benchmarks.grpo_workload import SHAPES, Workload

SMALL = {
    "vocab_size": 50,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
}


def test_counts_what_a_step_needs():
    workload = Workload(prompt_tokens=3, groups=1, group_size=2, completion_tokens=3)
    # Read: 3 of the prompt, 2 of each completion (the last predicts nothing). Logits: after the prompt, and at those 4.
    # Pairs: 1 + 2 + 3 in the prompt; a completion's tokens see 4 and 5 keys, 18 for both. In the last layer only the
    # prompt's last token asks, with 3 keys.
    assert Need.of(workload) == Need(encoded=7, predicting=5, pairs=24, pairs_of_predicting=21)


@pytest.mark.parametrize("whole", [False, True])
def test_operations_by_hand(monkeypatch, whole):
    monkeypatch.setitem(SHAPES, "tiny", SMALL)
    workload = Workload(prompt_tokens=3, groups=1, group_size=2, completion_tokens=3)
    # Weights of a layer: q 8 x 8 = 64, k and v 8 x 4 = 32 each, o 64, three of 8 x 16 = 128 in the MLP: 576, of which
    # k and v are 64. First layer: 7 tokens x 6 x 576 = 24,192. Last: 6 x (7 x 64 + 5 x 512) = 18,048, whole 24,192.
    # Attention: 12 x 2 heads x width 4 = 96 a pair: 96 x (24 + 21) = 4,320, whole 96 x 48 = 4,608.
    # Head: 5 tokens x 6 x 8 x 50 = 12,000.
    expected = 24_192 + (24_192 if whole else 18_048) + (4_608 if whole else 4_320) + 12_000
    assert training_operations(workload, whole_last_layer=whole) == expected


def test_two_groups_are_twice_the_work():
    one, two = (training_operations(Workload(prompt_tokens=9, groups=groups, lora=True)) for groups in (1, 2))
    assert two == 2 * one

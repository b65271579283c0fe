"""Bits per byte by value: of a model that knows nothing, beside plain logits, and of a real one."""

from __future__ import annotations

import math

import pytest
import torch

from rlft.config import EvaluationConfig, PolicyConfig
from rlft.evaluation.forgetting import TextBits, compare_bits, measure_bits, shipped_texts
from rlft.models.origin import create_policy
from tests.factories import make_policy

CHARACTERS = "ab\u00e4 "


def test_a_model_that_knows_nothing_needs_the_bits_of_its_vocabulary():
    policy = make_policy(characters=CHARACTERS)
    for parameter in policy.model.parameters():
        parameter.data.zero_()
    vocabulary = policy.model.config.vocab_size
    # Each token is as likely as any other. "ab" is two tokens and two bytes, the other three and five.
    found = measure_bits(policy, {"one": ("ab", "\u00e4\u00e4a")})
    assert found.bits["one"] == pytest.approx((math.log2(vocabulary), 3 / 5 * math.log2(vocabulary)))
    assert (found.left_out, found.policy) == ({}, policy.identity)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_probability_is_that_of_all_tokens_after_the_start(dtype):
    policy = make_policy(characters=CHARACTERS, sharpness=3.0, dtype=dtype)
    ids = policy.tokenizer("abba", add_special_tokens=False).input_ids
    row = torch.tensor([[policy.tokenizer.eos_token_id, *ids]])
    with torch.no_grad():
        logprobs = policy.model(input_ids=row).logits.double().log_softmax(-1)[0, :-1]
    nats = -sum(float(logprobs[place, token]) for place, token in enumerate(ids))
    # A logit of bfloat16 is off by up to 2^-9 of itself; ours are computed in float32.
    found = measure_bits(policy, {"t": ("abba",)}).bits["t"][0]
    assert found == pytest.approx(nats / math.log(2) / 4, rel=1e-5 if dtype == "float32" else 2e-2)


def test_what_is_longer_than_the_context_is_read_in_parts():
    policy = make_policy(characters=CHARACTERS, sharpness=3.0, max_position_embeddings=8)
    whole = measure_bits(policy, {"t": ("abababab",)}).bits["t"][0]
    first, rest = measure_bits(policy, {"t": ("abababa", "b")}).bits["t"]  # seven tokens, and the start before them
    assert whole == pytest.approx((7 * first + rest) / 8)


def test_texts_that_are_left_out():
    policy = make_policy(characters=CHARACTERS)
    found = measure_bits(policy, {"known": ("ab", "ba"), "other": ("ab", "xyz!")})
    assert list(found.bits) == ["known"]
    assert found.left_out == {"other": "the tokenizer has no token for '!', 'x', 'y', 'z'"}
    assert measure_bits(policy, {"o": ("uvwxyz",)}).left_out["o"].endswith("'u', 'v', 'w', 'x', 'y' and 1 more")
    policy.tokenizer.eos_token = None
    assert "neither a start nor an end token" in measure_bits(policy, {"known": ("ab",)}).left_out["known"]


def test_numbers_that_are_not_finite():
    policy = make_policy(characters=CHARACTERS)
    next(policy.model.parameters()).data.fill_(math.nan)
    assert "not finite" in measure_bits(policy, {"t": ("ab",)}).left_out["t"]


@pytest.mark.slow
def test_a_real_model(shared_data):
    # It has read simple English stories alone: that it knows best, then dialogue, and code least (docs/LOG.md).
    def measured(dtype: str) -> TextBits:
        model = PolicyConfig(model=str(shared_data / "model_stories260k" / "hf"), device="cpu", dtype=dtype)
        return measure_bits(create_policy(model, seed=0), shipped_texts())

    found = measured("float32")
    means = {name: sum(bits) / len(bits) for name, bits in found.bits.items()}
    expected = {
        "english": 2.439,
        "dialogue": 2.588,
        "arithmetic": 5.790,
        "spanish": 7.037,
        "german": 7.340,
        "code": 8.496,
    }
    assert means == pytest.approx(expected, abs=2e-3)
    assert found.left_out == {}
    rounded = compare_bits(measured("bfloat16"), found, EvaluationConfig().forgetting_margin)
    assert {each.verdict for each in rounded.values()} == {"kept"}
    assert max(abs(each.difference.mean) for each in rounded.values()) < 0.02

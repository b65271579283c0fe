"""Sampling: seeds, prefixes, stops, and that the frequencies are those of the model."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import GenerationConfig

from rlft.engines import transformers_engine
from rlft.engines.base import Sampling, derive_seed
from rlft.engines.sampling import sample
from rlft.engines.transformers_engine import TransformersEngine
from tests.factories import ARCHITECTURES, make_policy

PROMPTS = [[4], [5, 6, 7, 8, 9, 10], [5, 6], [11, 13, 4, 3], [5, 6, 7, 8, 9, 10], [4]]
EOS = 1


def engine_of(policy, batch_size=256):
    engine = TransformersEngine(batch_size)
    engine.load_policy(policy)
    return engine


def shapes_read(policy):
    """A list that fills with the shapes of all input ids the policy's model reads from now on."""
    assert policy.split.body is not None  # found out by reading a few tokens, before anyone counts
    assert policy.shares_prompts
    shapes = []
    policy.model.get_input_embeddings().register_forward_hook(lambda _, ids, __: shapes.append(tuple(ids[0].shape)))
    return shapes


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_seed_gives_the_same_tokens_alone_and_in_a_batch(architecture):
    policy = make_policy(architecture, sharpness=3.0)
    seeds = [derive_seed("test", i) for i in range(len(PROMPTS))]
    together = engine_of(policy).generate(PROMPTS, Sampling(1.0, 12), seeds)
    apart = [engine_of(policy).generate([p], Sampling(1.0, 12), [s])[0] for p, s in zip(PROMPTS, seeds, strict=True)]
    in_threes = engine_of(policy, 3).generate(PROMPTS, Sampling(1.0, 12), seeds)
    for a, b, c in zip(together, apart, in_threes, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist() == c.token_ids.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
        assert a.stop_reason == b.stop_reason == c.stop_reason
        assert (a.token_ids.dtype, a.logprobs.dtype) == (np.int32, np.float32)
    assert together[0].token_ids.tolist() != together[5].token_ids.tolist(), "equal prompts, other seeds"


def test_a_repetition_is_bit_equal():
    policy = make_policy(sharpness=3.0)
    first, second = (engine_of(policy).generate(PROMPTS, Sampling(0.7, 12), range(6)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.logprobs.tobytes() == b.logprobs.tobytes()


def test_sampling_leaves_global_random_state_alone():
    policy = make_policy()
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    engine_of(policy).generate(PROMPTS, Sampling(1.0, 4), range(6))
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_equal_prompts_are_encoded_once_and_ended_rows_leave():
    policy = make_policy(sharpness=3.0)
    shapes = shapes_read(policy)
    prompts = [[4, 5, 6]] * 5 + [[7, 8]] * 3
    generations = engine_of(policy).generate(prompts, Sampling(1.0, 10), range(8))
    lengths = [len(g.token_ids) for g in generations]
    assert len(set(lengths)) > 1, "some rows end early"
    # One call for two prompts of width 3, then one row for each completion that needs another token.
    expected = [(sum(length > n for length in lengths), 1) for n in range(1, max(lengths))]
    assert shapes == [(2, 3), *expected]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_stop_token_ends_a_row_and_is_kept(architecture):
    policy = make_policy(architecture, sharpness=3.0)
    generations = engine_of(policy).generate(PROMPTS * 6, Sampling(1.0, 8), range(36))
    assert {g.stop_reason for g in generations} == {"stop", "length"}
    for g in generations:
        assert EOS not in g.token_ids[:-1]
        assert (g.token_ids[-1] == EOS) == (g.stop_reason == "stop")
        assert len(g.token_ids) == len(g.logprobs) <= 8
        assert g.stop_reason == "stop" or len(g.token_ids) == 8


def test_several_stop_tokens():
    policy = make_policy()
    policy.model.generation_config.eos_token_id = [EOS, 5, 6]
    generations = engine_of(policy).generate([[4]] * 40, Sampling(1.0, 6), range(40))
    assert {int(g.token_ids[-1]) for g in generations if g.stop_reason == "stop"} == {EOS, 5, 6}
    assert not any(token in (EOS, 5, 6) for g in generations for token in g.token_ids[:-1])


def test_a_model_without_a_stop_token_goes_on_to_the_end():
    policy = make_policy()
    policy.model.generation_config.eos_token_id = None
    assert policy.stop_token_ids() == (EOS,), "the tokenizer's"
    policy.tokenizer.eos_token = None
    assert policy.stop_token_ids() == ()
    generations = engine_of(policy).generate([[4]] * 20, Sampling(1.0, 6), range(20))
    assert {(len(g.token_ids), g.stop_reason) for g in generations} == {(6, "length")}


def test_a_stop_in_the_last_place_is_a_stop():
    policy = make_policy()
    generations = engine_of(policy).generate([[4]] * 64, Sampling(1.0, 1), range(64))
    assert {g.stop_reason for g in generations if g.token_ids[0] == EOS} == {"stop"}
    assert {g.stop_reason for g in generations if g.token_ids[0] != EOS} == {"length"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_is_that_of_transformers(architecture):
    policy = make_policy(architecture, seed=1, sharpness=3.0)
    generations = engine_of(policy).generate(PROMPTS, Sampling(0.0, 12), range(6))
    config = GenerationConfig(do_sample=False, max_new_tokens=12, eos_token_id=EOS, pad_token_id=0)
    for prompt, generation in zip(PROMPTS, generations, strict=True):
        expected = policy.model.generate(torch.tensor([prompt]), generation_config=config)[0, len(prompt) :].tolist()
        assert generation.token_ids.tolist() == expected
        with torch.no_grad():
            logits = policy.model(torch.tensor([prompt + expected])).logits[0]
        plain = logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(expected) - 1), expected]
        np.testing.assert_allclose(generation.logprobs, plain.numpy(), atol=1e-5)  # under temperature 1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax(temperature):
    policy = make_policy(sharpness=3.0)
    prompt, count = [5, 6, 7], 4000
    with torch.no_grad():
        logits = policy.model(torch.tensor([prompt])).logits[0, -1].double()
    expected = (logits / temperature).softmax(-1).numpy()
    generations = engine_of(policy, count).generate([prompt] * count, Sampling(temperature, 1), range(count))
    found = np.bincount([int(g.token_ids[0]) for g in generations], minlength=len(expected))
    common = expected * count >= 5  # the chi-square needs some of each; the rest is one class
    observed, wanted = [*found[common], found[~common].sum()], [*expected[common], expected[~common].sum()]
    if wanted[-1] * count < 1:
        observed, wanted = observed[:-1], wanted[:-1]
    assert common.sum() >= 4
    assert chisquare(observed, np.asarray(wanted) / sum(wanted) * sum(observed)).pvalue > 0.01
    # and the recorded probability is that of the token that was drawn
    for g in generations[:50]:
        assert g.logprobs[0] == pytest.approx(np.log(expected[g.token_ids[0]]), abs=1e-5)


@pytest.mark.parametrize("uniform", [0.0, 1e-300, 0.25, 0.5, 0.75, 1 - 2**-53])
def test_never_a_token_without_probability(uniform):
    off = float("-inf")
    logits = torch.tensor([[off, 0.0, off, 0.0, off], [off, off, off, off, 0.0], [0.0, off, off, off, off]])
    chosen, logprobs = sample(logits, torch.full((3,), uniform, dtype=torch.float64), Sampling(1.0, 1))
    assert chosen.tolist() == [1 if uniform < 0.5 else 3, 4, 0]
    assert logprobs.exp().tolist() == pytest.approx([0.5, 1, 1])


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0, 1, exclude_max=True), st.floats(0.05, 5))
def test_inversion_lands_where_the_cumulative_sum_says(seed, uniform, temperature):
    logits = torch.randn(1, 1000, generator=torch.Generator().manual_seed(seed)) * 4
    chosen, logprob = sample(logits, torch.tensor([uniform], dtype=torch.float64), Sampling(temperature, 1))
    probabilities = (logits / temperature).log_softmax(-1).double().exp()[0].numpy()
    token = int(chosen)
    before = probabilities[:token].sum() / probabilities.sum()
    assert before - 1e-6 <= uniform <= before + probabilities[token] / probabilities.sum() + 1e-6
    assert probabilities[token] > 0
    assert float(logprob) == pytest.approx(np.log(probabilities[token]), abs=1e-4)


def test_no_prompts_no_completions():
    assert engine_of(make_policy()).generate([], Sampling(1.0, 4), []) == []


def test_the_engine_needs_a_policy_and_forgets_it():
    engine = engine_of(make_policy())
    engine.close()
    assert engine.policy_hash == ""
    with pytest.raises(RuntimeError, match="load_policy"):
        engine.generate([[4]], Sampling(1.0, 4), [0])


def test_changed_weights_are_sampled_from_at_once():
    policy = make_policy(sharpness=3.0)
    engine = engine_of(policy)
    before = engine.generate(PROMPTS, Sampling(0.0, 8), range(6))
    for parameter in policy.model.parameters():
        parameter.data *= -1
    after = engine.generate(PROMPTS, Sampling(0.0, 8), range(6))
    assert any(a.logprobs.tobytes() != b.logprobs.tobytes() for a, b in zip(before, after, strict=True))


def test_seeds_are_of_their_parts():
    assert derive_seed(0, "train", 1) == derive_seed(0, "train", 1)
    assert len({derive_seed(0, "a", i) for i in range(1000)}) == 1000
    assert derive_seed(1, 12) != derive_seed(11, 2)
    assert all(0 <= derive_seed(i) < 2**63 for i in range(200))


def test_fingerprints_differ_with_what_they_stand_for():
    assert Sampling(0.7, 8).fingerprint == "temperature=0.7 max_completion_length=8"
    assert transformers_engine.Sampling(0.7, 9).fingerprint != Sampling(0.7, 8).fingerprint

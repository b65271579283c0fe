"""Sampling with both decoders: seeds, prefixes, stops, and that the frequencies are those of the model."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM, GenerationConfig, GPTNeoConfig

from rlft.engines import transformers_engine
from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.training.batching import pack_tree, pad_rows
from rlft.training.logprobs import token_logprobs
from rlft.types import derive_seed
from tests.factories import make_policy, make_rollout
from tests.rlft.models.small_models import EOS, FAMILIES, OTHERS, make_small_policy

PROMPTS = [[4], [5, 6, 7, 8, 9, 10], [5, 6], [11, 13, 4, 3], [5, 6, 7, 8, 9, 10], [4]]
WAYS = ("shared", "plain")
KINDS = [("shared", family) for family in FAMILIES] + [("plain", family) for family in (*FAMILIES, *OTHERS)]


def engine_of(policy, batch_size=256):
    engine = TransformersEngine(batch_size)
    engine.load_policy(policy)
    return engine


def in_the_way(policy, way):
    """The policy, sampled from with this decoder; all that is tried once has been tried."""
    assert policy.split.body is not None
    if way == "plain":
        policy.shares_prompts = False
    assert policy.shares_prompts == (way == "shared")
    return policy


@pytest.fixture(params=WAYS)
def policy(request):
    """A small policy that prefers some tokens, by each decoder."""
    return in_the_way(make_policy(sharpness=3.0), request.param)


@pytest.fixture(params=WAYS)
def even_policy(request):
    """One that hardly prefers any."""
    return in_the_way(make_policy(), request.param)


def shapes_read(policy):
    """A list that fills with the shapes of all input ids the policy's model reads from now on."""
    shapes = []
    policy.model.get_input_embeddings().register_forward_hook(lambda _, ids, __: shapes.append(tuple(ids[0].shape)))
    return shapes


@pytest.mark.parametrize(("way", "family"), KINDS)
def test_a_seed_gives_the_same_tokens_alone_and_in_a_batch(way, family):
    policy = in_the_way(make_small_policy(family), way)
    seeds = [derive_seed("test", i) for i in range(len(PROMPTS))]
    together = engine_of(policy).generate(PROMPTS, Sampling(1.0, 12), seeds)
    apart = [engine_of(policy).generate([p], Sampling(1.0, 12), [s])[0] for p, s in zip(PROMPTS, seeds, strict=True)]
    in_threes = engine_of(policy, 3).generate(PROMPTS, Sampling(1.0, 12), seeds)
    for a, b, c in zip(together, apart, in_threes, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist() == c.token_ids.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-4 if family == "mamba" else 1e-5)
        assert a.stop_reason == b.stop_reason == c.stop_reason
        assert (a.token_ids.dtype, a.logprobs.dtype) == (np.int32, np.float32)
    assert together[0].token_ids.tolist() != together[5].token_ids.tolist(), "equal prompts, other seeds"


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_decoders_draw_the_same_tokens(family, temperature):
    policy = make_small_policy(family)
    found = {}
    for way in WAYS:
        prompts = [prompt for prompt in PROMPTS[:4] for _ in range(6)]
        found[way] = engine_of(in_the_way(policy, way)).generate(prompts, Sampling(temperature, 16), range(24))
    assert len({len(g.token_ids) for g in found["shared"]}) > 3, "rows leave at different times"
    for shared, plain in zip(found["shared"], found["plain"], strict=True):
        assert shared.token_ids.tolist() == plain.token_ids.tolist()
        assert shared.stop_reason == plain.stop_reason
        np.testing.assert_allclose(shared.logprobs, plain.logprobs, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize(("way", "family"), KINDS)
def test_log_probabilities_are_those_of_the_trainer(way, family, temperature):
    policy = in_the_way(make_small_policy(family), way)
    prompts = [prompt for prompt in PROMPTS[:4] for _ in range(3)]
    generations = engine_of(policy).generate(prompts, Sampling(temperature, 10), range(12))
    pairs = [
        (make_rollout(prompt=p, completion=g.token_ids.tolist(), logprobs=g.logprobs.tolist()), 0.0)
        for p, g in zip(prompts, generations, strict=True)
    ]
    batch = (pack_tree if way == "shared" else pad_rows)(pairs, policy.device)
    logprobs = token_logprobs(policy, batch, temperature).logprobs.detach()
    torch.testing.assert_close(logprobs, batch.logprobs, rtol=0, atol=1e-4 if family == "mamba" else 1e-5)
    assert len({len(g.token_ids) for g in generations}) > 1, "completions of different lengths"


def test_a_repetition_is_bit_equal(policy):
    first, second = (engine_of(policy).generate(PROMPTS, Sampling(0.7, 12), range(6)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.logprobs.tobytes() == b.logprobs.tobytes()


def test_sampling_leaves_global_random_state_alone(policy):
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    engine_of(policy).generate(PROMPTS, Sampling(1.0, 4), range(6))
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_equal_prompts_are_encoded_once_and_ended_rows_leave(policy):
    shapes = shapes_read(policy)
    prompts = [[4, 5, 6]] * 5 + [[7, 8]] * 3
    generations = engine_of(policy).generate(prompts, Sampling(1.0, 10), range(8))
    lengths = [len(g.token_ids) for g in generations]
    assert len(set(lengths)) > 1, "some rows end early"
    # One call for two prompts, of width 3 or in one row, then one row for each completion that needs another token.
    expected = [(sum(length > n for length in lengths), 1) for n in range(1, max(lengths))]
    assert shapes == [(1, 3 + 2) if policy.shares_prompts else (2, 3), *expected]


def test_a_row_among_many_is_fed_in_vain_rather_than_taken_out():
    policy = in_the_way(make_policy(sharpness=3.0), "shared")
    shapes = shapes_read(policy)
    generations = engine_of(policy).generate([[4, 5, 6]] * 32, Sampling(1.0, 10), range(32))
    live = [
        sum(len(g.token_ids) > n for g in generations) for n in range(1, max(len(g.token_ids) for g in generations))
    ]
    batch = [rows for rows, _ in shapes[1:]]
    assert any(rows > needed for rows, needed in zip(batch, live, strict=True))
    assert all(needed <= rows <= needed * 8 / 7 + 1 for rows, needed in zip(batch, live, strict=True))


@pytest.mark.parametrize(("way", "family"), KINDS)
def test_a_stop_token_ends_a_row_and_is_kept(way, family):
    policy = in_the_way(make_small_policy(family, sharpness=1.5), way)
    generations = engine_of(policy).generate(PROMPTS * 6, Sampling(1.0, 8), range(36))
    assert {g.stop_reason for g in generations} == {"stop", "length"}
    for g in generations:
        assert EOS not in g.token_ids[:-1]
        assert (g.token_ids[-1] == EOS) == (g.stop_reason == "stop")
        assert len(g.token_ids) == len(g.logprobs) <= 8
        assert g.stop_reason == "stop" or len(g.token_ids) == 8


def test_several_stop_tokens(even_policy):
    even_policy.model.generation_config.eos_token_id = [EOS, 5, 6]
    generations = engine_of(even_policy).generate([[4]] * 40, Sampling(1.0, 6), range(40))
    assert {int(g.token_ids[-1]) for g in generations if g.stop_reason == "stop"} == {EOS, 5, 6}
    assert not any(token in (EOS, 5, 6) for g in generations for token in g.token_ids[:-1])


def test_a_model_without_a_stop_token_goes_on_to_the_end(even_policy):
    even_policy.model.generation_config.eos_token_id = None
    assert even_policy.stop_token_ids() == (EOS,), "the tokenizer's"
    even_policy.tokenizer.eos_token = None
    assert even_policy.stop_token_ids() == ()
    generations = engine_of(even_policy).generate([[4]] * 20, Sampling(1.0, 6), range(20))
    assert {(len(g.token_ids), g.stop_reason) for g in generations} == {(6, "length")}


def test_a_stop_in_the_last_place_is_a_stop(even_policy):
    generations = engine_of(even_policy).generate([[4]] * 64, Sampling(1.0, 1), range(64))
    assert {g.stop_reason for g in generations if g.token_ids[0] == EOS} == {"stop"}
    assert {g.stop_reason for g in generations if g.token_ids[0] != EOS} == {"length"}


@pytest.mark.parametrize(("way", "family"), KINDS)
def test_greedy_is_that_of_transformers(way, family):
    policy = in_the_way(make_small_policy(family, seed=1), way)
    generations = engine_of(policy).generate(PROMPTS, Sampling(0.0, 12), range(6))
    config = GenerationConfig(do_sample=False, max_new_tokens=12, eos_token_id=EOS, pad_token_id=0)
    for prompt, generation in zip(PROMPTS, generations, strict=True):
        ids = torch.tensor([prompt])
        found = policy.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        expected = found[0, len(prompt) :].tolist()
        assert generation.token_ids.tolist() == expected
        with torch.no_grad():
            logits = policy.model(torch.tensor([prompt + expected]), use_cache=False).logits[0]
        plain = logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(expected) - 1), expected]
        tolerance = 1e-4 if family == "mamba" else 1e-5
        np.testing.assert_allclose(generation.logprobs, plain.numpy(), atol=tolerance)  # under temperature 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax(temperature, way):
    policy = in_the_way(make_policy(sharpness=3.0), way)
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


@pytest.mark.parametrize("cut", [{"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.3}])
def test_what_is_cut_off_is_not_sampled_and_not_counted(cut, policy):
    sampling = Sampling(1.0, 6, **cut)
    for prompt, generation in zip(PROMPTS, engine_of(policy).generate(PROMPTS, sampling, range(6)), strict=True):
        row = prompt + generation.token_ids.tolist()
        with torch.no_grad():
            everything = policy.model(torch.tensor([row])).logits[0].double().softmax(-1)
        for place, logprob in enumerate(generation.logprobs, start=len(prompt)):
            probabilities, order = everything[place - 1].sort(descending=True)
            if "top_k" in cut:
                kept = 3
            elif "top_p" in cut:
                kept = int((probabilities.cumsum(0) - probabilities < 0.6).sum())
            else:
                kept = int((probabilities >= 0.3 * probabilities[0]).sum())
            assert row[place] in order[:kept]
            drawn = everything[place - 1, row[place]] / probabilities[:kept].sum()
            assert logprob == pytest.approx(drawn.log().item(), abs=1e-4)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["gpt2", "qwen3"])
def test_a_completion_ends_with_the_context(family, way):
    # a context of 10 leaves 4 tokens to a prompt of 6 and all 8 that may be to a prompt of 1
    shape = {"n_positions": 10} if family == "gpt2" else {"max_position_embeddings": 10}
    policy = in_the_way(make_small_policy(family, **shape), way)
    policy.model.generation_config.eos_token_id = []
    generations = engine_of(policy).generate(PROMPTS, Sampling(1.0, 8), range(6))
    assert [len(g.token_ids) for g in generations] == [8, 4, 8, 6, 4, 8]
    assert {g.stop_reason for g in generations} == {"length"}
    for number in (2, 3):  # and what had ended did no harm to the others
        alone = engine_of(policy).generate([PROMPTS[number]], Sampling(1.0, 8), [number])
        assert alone[0].token_ids.tolist() == generations[number].token_ids.tolist()


def test_a_prompt_that_fills_the_context(policy):
    context = policy.context_length
    with pytest.raises(ValueError, match=f"a prompt of {context} tokens leaves no room in a context of {context}"):
        engine_of(policy).generate([[4], [5] * context], Sampling(1.0, 4), [0, 1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("near", [False, True])
def test_rows_that_padding_would_push_out_of_the_context_go_apart(near, way):
    # a prompt of 6 and 5 more tokens is beyond a context of 10; padding would put a prompt of 1 there as well
    policy = in_the_way(make_small_policy("qwen3", max_position_embeddings=10 if near else 11), way)
    shapes = shapes_read(policy)
    engine_of(policy).generate(PROMPTS, Sampling(1.0, 5), range(6))
    # without padding there is one row of all: 1 + 6 + 4, as [5, 6] is the beginning of another prompt
    plain = {2, 4, 6} if near else {6}
    assert {width for _, width in shapes if width > 1} == (plain if way == "plain" else {11})


def test_what_cannot_be_sampled():
    engine = engine_of(make_policy())
    with pytest.raises(ValueError, match="2 prompts need as many seeds, not 1"):
        engine.generate([[4], [5]], Sampling(1.0, 4), [0])
    with pytest.raises(ValueError, match="prompt 1 has no token to go on from"):
        engine.generate([[4], []], Sampling(1.0, 4), [0, 1])


def test_no_prompts_no_completions():
    assert engine_of(make_policy()).generate([], Sampling(1.0, 4), []) == []


def test_the_engine_needs_a_policy_and_forgets_it():
    policy = make_policy()
    policy.metadata = dataclasses.replace(policy.metadata, weights_hash="abc")
    engine = engine_of(policy)
    assert engine.policy_hash == "abc"
    engine.close()
    assert engine.policy_hash == ""
    with pytest.raises(RuntimeError, match="load_policy"):
        engine.generate([[4]], Sampling(1.0, 4), [0])


def test_changed_weights_are_sampled_from_at_once(policy):
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
    cut = Sampling(0.7, 8, top_p=0.9, top_k=50, min_p=0.05).fingerprint
    assert cut == "temperature=0.7 max_completion_length=8 top_p=0.9 top_k=50 min_p=0.05"


def test_prompts_and_seeds_that_cannot_be():
    engine = engine_of(make_policy())
    with pytest.raises(ValueError, match="prompt 1 has no token"):
        engine.generate([[4], []], Sampling(1.0, 4), [0, 1])
    with pytest.raises(ValueError, match="2 prompts need as many seeds"):
        engine.generate([[4], [5]], Sampling(1.0, 4), [0])


def test_near_the_end_of_a_fixed_context_rows_of_other_lengths_go_apart():
    # GPT-Neo's causal buffer has 36 places; 30 of padding and 35 new tokens would not fit for the short prompt.
    config = GPTNeoConfig(
        vocab_size=16, hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global"], 2]],
        max_position_embeddings=36, window_size=36, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    policy = make_policy()
    policy.model = AutoModelForCausalLM.from_config(config).eval()
    assert not policy.shares_prompts
    prompts, sampling = [[5] * 30, [5], [6]], Sampling(1.0, 40)
    together = engine_of(policy).generate(prompts, sampling, range(3))
    for seed, (prompt, found) in enumerate(zip(prompts, together, strict=True)):
        (alone,) = engine_of(policy).generate([prompt], sampling, [seed])
        assert found.token_ids.tolist() == alone.token_ids.tolist()

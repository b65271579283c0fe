"""Canaries and what they prove: wrong, missing and stale weights, worked out from small numbers."""

import contextlib
import copy
import dataclasses
import math
import re

import numpy as np
import pytest
import torch

from rlft.engines.base import Generation, Sampling
from rlft.engines.proof import MAX_LOGPROB_DIFFERENCE, Canaries, Evidence, check_evidence, score_tokens
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import EngineError
from tests.factories import ARCHITECTURES
from tests.rlft.models.small_models import VOCABULARY, add_lora, make_model, make_small_policy, policy_of


def evidence(trainer, engine=None, *, policy="new", tokens=(4, 5)):
    """Two canary tokens; the engine says what the trainer says unless given."""
    engine = trainer if engine is None else engine
    return Evidence(policy, tokens, np.asarray(engine, np.float64), np.asarray(trainer, np.float64), (len(tokens),))


ROUGH = evidence([-1.0, -2.0], [-1.00009, -2.00009])  # a first push whose rounding explains 2.7e-4 in the mean


def sampler_of(policy):
    engine = TransformersEngine()
    engine.load_policy(policy)
    return engine.generate


def moved(policy, size, update=1):
    """A copy after an update that changed every weight by about `size` of it: padding's embedding stays zero."""
    other = policy_of(copy.deepcopy(policy.model))
    draw = torch.Generator().manual_seed(update)
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter *= 1 + size * torch.randn(parameter.shape, generator=draw)
    other.metadata = policy.metadata
    other.note_change(update=update)
    return other


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_scores_are_log_probabilities_of_the_model(family, lora):
    model = make_model(family)
    policy = policy_of(add_lora(model) if lora else model)
    prompt, tokens = [4, 9, 3], [12, 7, 7, 1]
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).logits[0].numpy()
    logits = logits.astype(np.float64)
    expected = [
        logits[place, token] - math.log(np.exp(logits[place]).sum()) for place, token in enumerate(tokens, start=2)
    ]
    np.testing.assert_allclose(score_tokens(policy, prompt, tokens), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_an_engine_with_the_policys_weights_passes(family):
    policy, before = make_small_policy(family), None
    canaries = Canaries(VOCABULARY, 64)
    for update in range(3):
        now = canaries.ask(sampler_of(policy), policy)
        check_evidence(now, before, "float32", None)
        assert now.difference < 1e-5
        policy, before = moved(policy, 0.02, update + 1), now


def test_an_engine_with_other_weights_does_not():
    policy = make_small_policy("qwen3")
    now = Canaries(VOCABULARY, 64).ask(sampler_of(moved(policy, 0.02)), policy)
    with pytest.raises(EngineError, match="does not sample with the policy's weights") as error:
        check_evidence(now, None, "float32", None)
    assert error.value.where == "rollout.max_logprob_difference"
    assert "rollout.engine: transformers" in error.value.fix


@pytest.mark.slow
def test_an_engine_that_did_not_follow_a_small_update_is_stale():
    # Weights off by a millionth move log-probabilities by less than the rounding of two implementations may: only that
    # the engine has not moved at all tells.
    old = make_small_policy("qwen3")
    new, canaries = moved(old, 1e-6), Canaries(VOCABULARY, 64)
    before = canaries.ask(sampler_of(old), old)
    stale = canaries.ask(sampler_of(old), new)
    assert 2e-6 < stale.difference < MAX_LOGPROB_DIFFERENCE["float32"]
    with pytest.raises(EngineError, match="still samples with the weights it had"):
        check_evidence(stale, before, "float32", None)
    check_evidence(canaries.ask(sampler_of(new), new), before, "float32", None)
    check_evidence(stale, dataclasses.replace(before, policy=stale.policy), "float32", None)  # nothing was to move


@pytest.mark.parametrize(
    ("dtype", "limit", "gap", "fine"),
    [
        ("float32", None, 0.9e-4, True),
        ("float32", None, 1.1e-4, False),
        ("bfloat16", None, 0.4, True),
        ("bfloat16", None, 0.6, False),
        ("float32", 0.01, 0.009, True),
        ("float32", 0.01, 0.011, False),
        ("bfloat16", 0.01, 0.011, False),
        ("float32", None, math.nan, False),
        ("float32", None, math.inf, False),
        ("bfloat16", 100.0, math.nan, False),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_difference_decides(dtype, limit, gap, fine, sign):
    now = evidence([-1.0, -2.0], [-1.0, -2.0 + sign * gap])
    if fine:
        check_evidence(now, None, dtype, limit)
        assert now.difference == pytest.approx(gap)
        return
    with pytest.raises(EngineError, match="differ by"):
        check_evidence(now, None, dtype, limit)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("trainer", "engine"), [(math.nan, -1.0), (-math.inf, -math.inf), (math.nan, math.nan)])
def test_what_is_no_number_proves_nothing(trainer, engine):
    assert evidence([-1.0, trainer], [-1.0, engine]).difference == math.inf


@pytest.mark.parametrize(
    ("trainer", "engine", "fine"),
    [
        ([-1.0, -2.00004], [-1.0, -2.0], False),  # moved by 4e-5, the engine by nothing
        ([-1.0, -2.00004], [-1.0, -2.000004], False),  # by 4e-6, a tenth
        ([-1.0, -2.00004], [-1.0, -2.00001], True),  # by a quarter
        ([-1.0, -2.0000005], [-1.0, -2.0], True),  # 5e-7 may be rounding
    ],
)
def test_an_engine_must_move_when_the_policy_does(trainer, engine, fine):
    before, now = dataclasses.replace(evidence([-1.0, -2.0], policy="old"), first=ROUGH), evidence(trainer, engine)
    if fine:
        check_evidence(now, before, "float32", None)
        return
    with pytest.raises(EngineError, match=r"moved by 4e-05, the engine's by"):
        check_evidence(now, before, "float32", None)


def test_stale_tokens_are_only_compared_with_the_same_tokens_after_the_same_ones():
    before, now = evidence([-1.0, -2.0], policy="old"), evidence([-1.0, -2.00004], [-1.0, -2.0])
    before = dataclasses.replace(before, first=ROUGH)
    check_evidence(now, dataclasses.replace(before, policy="new"), "float32", None)
    check_evidence(dataclasses.replace(now, token_ids=(4, 6)), before, "float32", None)
    check_evidence(dataclasses.replace(now, token_ids=(3, 5)), before, "float32", None)
    check_evidence(dataclasses.replace(now, token_ids=(4, 6, 7), lengths=(3,)), before, "float32", None)
    # Another canary whose tokens are others does not hide it.
    before = dataclasses.replace(before, lengths=(1, 1))
    with pytest.raises(EngineError, match="still samples"):
        check_evidence(dataclasses.replace(now, token_ids=(3, 5), lengths=(1, 1)), before, "float32", None)


@pytest.mark.parametrize(
    ("sensitivity", "fine", "wrong"), [(1.0, 0.029, 0.031), (2.0, 0.059, 0.061), (0.5, 0.029, 0.031)]
)
def test_the_mean_may_grow_threefold_and_with_the_policys_sensitivity(sensitivity, fine, wrong):
    # The first push: 0.01 in the mean, so 0.03 for the same sensitivity, 0.06 for twice that; it never shrinks.
    tokens = tuple(range(4))

    def seen(policy, gap, sensitivity):
        trainer = np.full(4, -1.0)
        return Evidence(policy, tokens, trainer + gap * np.array([1, -1, 1, -1]), trainer, (1,) * 4, sensitivity)

    first = check_evidence(seen("a", 0.01, 1.0), None, "bfloat16", None)
    second = check_evidence(seen("b", fine, sensitivity), first, "bfloat16", None)
    with pytest.raises(EngineError, match=r"in the mean, more than the 0\.0[36] that rounding explains"):
        check_evidence(seen("c", wrong, sensitivity), second, "bfloat16", None)
    assert second.metrics("bfloat16") == {
        "engine/canary_logp_difference": pytest.approx(fine),
        "engine/canary_logp_difference_mean": pytest.approx(fine),
        "engine/logp_difference_limit": pytest.approx(0.03 * max(sensitivity, 1.0)),
    }


def test_what_differs_after_every_push_is_caught_where_a_single_one_is_not():
    # The first push: 0.01 in the mean. 0.029 passes alone; of the last four pushes the mean may be 0.02:
    # (0.01 + 0.02 + 0.025 + 0.02) / 4 = 0.019 passes, (0.02 + 0.025 + 0.02 + 0.02) / 4 = 0.021 does not.
    trainer, before = np.full(4, -1.0), None

    def seen(policy, gap):
        return Evidence(policy, (0, 1, 2, 3), trainer + gap * np.array([1, -1, 1, -1]), trainer, (1,) * 4, 1.0)

    for policy, gap in enumerate((0.01, 0.02, 0.025, 0.02)):
        before = check_evidence(seen(str(policy), gap), before, "bfloat16", None)
    with pytest.raises(EngineError, match=r"0\.0213 over the last 4 pushes, .* \(or 0\.02 over 4\)"):
        check_evidence(seen("4", 0.02), before, "bfloat16", None)
    check_evidence(seen("4", 0.01), before, "bfloat16", None)


@pytest.mark.slow
def test_stale_weights_of_a_part_grow_beyond_rounding_in_three_rounds():
    # An engine in bfloat16 whose numbers are rounded by another order of sums, as it has all canaries in one batch.
    for family in ARCHITECTURES:
        for part in ("mlp", "attn", "embed_tokens|wte|lm_head"):
            policy, canaries = small_bfloat16(family), Canaries(VOCABULARY, 64)
            before = check_evidence(canaries.ask(sampler_of(policy), policy), None, "bfloat16", None)
            caught = 0
            new = policy
            for update in range(1, 4):
                new = moved(new, 0.05, update)
                with pytest.raises(EngineError) if caught else contextlib.suppress(EngineError):
                    caught = update
                    before = check_evidence(
                        canaries.ask(sampler_of(mixed(new, policy, part)), new), before, "bfloat16", 9
                    )
                    caught = 0
            assert caught, (family, part)


@pytest.mark.slow
def test_an_engine_in_bfloat16_that_follows_is_never_accused():
    for family in ARCHITECTURES:
        policy, canaries, before = small_bfloat16(family), Canaries(VOCABULARY, 64), None
        for update in range(1, 11):
            before = check_evidence(canaries.ask(sampler_of(policy), policy), before, "bfloat16", None)
            policy = moved(policy, 0.01, update)


def small_bfloat16(family):
    policy = make_small_policy(family, dtype=torch.bfloat16)
    policy.metadata = dataclasses.replace(policy.metadata, dtype="bfloat16")
    return policy


def mixed(new, old, part):
    """The new policy with the old one's values in all weights that hold this part in their name."""
    engine = policy_of(copy.deepcopy(new.model))
    stale = dict(old.model.named_parameters())
    with torch.no_grad():
        for name, parameter in engine.model.named_parameters():
            if re.search(part, name):
                parameter.copy_(stale[name])
    return engine


@pytest.mark.parametrize("context", [2, 16, 64, 400, None])
def test_prompts_fit_the_context_and_do_not_change(context):
    canaries = Canaries(VOCABULARY, context)
    assert canaries.prompts == Canaries(VOCABULARY, context).prompts
    assert {token for prompt in canaries.prompts for token in prompt} <= set(range(VOCABULARY))
    new = canaries.sampling.max_completion_length
    room = 10**9 if context is None else max(context - new, 1)
    assert [len(prompt) for prompt in canaries.prompts] == [min(length, room) for length in (1, 7, 24, *[12] * 24, 300)]


def test_a_small_context_is_no_obstacle():
    policy = make_small_policy("gpt2", n_positions=16)
    now = Canaries(VOCABULARY, policy.context_length).ask(sampler_of(policy), policy)
    check_evidence(now, None, "float32", None)
    assert len(now.token_ids) == len(now.by_engine) == len(now.by_trainer) > 4


def test_canaries_that_are_not_answered_are_an_error():
    def generate(prompts, sampling, seeds):
        return [Generation.failed("engine", "no room")] * len(prompts)

    with pytest.raises(EngineError, match="did not answer its canary prompts: engine: no room"):
        Canaries(VOCABULARY, 64).ask(generate, make_small_policy("qwen3"))


def test_the_longest_prompt_is_asked_before_a_push():
    asked = []
    canaries = Canaries(VOCABULARY, 400)
    canaries.warm_cache(lambda *call: asked.append(call) or [])
    ((prompts, sampling, seeds),) = asked
    assert (prompts, sampling, list(seeds)) == ([canaries.prompts[-1]], Sampling(1.0, 1), [0])
    assert len(prompts[0]) == 300


def test_log_probabilities_before_temperature_are_found_out():
    # An engine that reports them as a hotter distribution would: right at temperature 1, wrong at any other.
    policy = policy_of(make_model("qwen3"))
    engine = TransformersEngine()
    engine.load_policy(policy)

    def raw(prompts, sampling, seeds):
        found = engine.generate(prompts, sampling, seeds)
        return [
            dataclasses.replace(one, logprobs=score_tokens(policy, prompt, one.token_ids.tolist()).astype(np.float32))
            for prompt, one in zip(prompts, found, strict=True)
        ]

    canaries = Canaries(policy.model.config.vocab_size, 64)
    assert canaries.ask(engine.generate, policy).difference < 1e-5
    assert canaries.ask(raw, policy).difference > 1e-3


def test_an_engine_that_moves_the_other_way_has_other_weights():
    # moved by 1e-3 each, in opposite directions: alike in size, 2e-3 apart
    def seen(policy, engine, trainer):
        return Evidence(policy, (1, 2), np.asarray(engine), np.asarray(trainer), (2,))

    before = dataclasses.replace(seen("a", [-1.0, -2.0], [-1.0, -2.0]), first=seen("a", [-1.0, -2.0], [-1.1, -2.1]))
    check_evidence(seen("b", [-1.001, -2.0], [-1.001, -2.0]), before, "float32", 1.0)
    with pytest.raises(EngineError, match="still samples"):
        check_evidence(seen("b", [-0.999, -2.0], [-1.001, -2.0]), before, "float32", 1.0)

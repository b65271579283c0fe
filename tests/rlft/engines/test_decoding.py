"""Next-token logits while rows grow and leave: those of the whole row, read by the model as it is."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.engines.transformers_engine import PlainDecoder, RecordedDecoder, SharedDecoder, make_decoder
from rlft.errors import PolicyError
from tests.rlft.models.small_models import (
    FAMILIES,
    OTHERS,
    VOCABULARY,
    add_lora,
    make_model,
    make_small_policy,
    policy_of,
)

PROMPTS = [[4], [5, 6, 7, 8, 9, 10], [5, 6], [11, 13, 4, 3], [5, 6, 7, 8, 9, 10], [4]]
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class Unrecorded(RecordedDecoder):
    """Does the same operations for every token, one by one."""

    possible = False


DECODERS = {"shared": SharedDecoder, "fixed": Unrecorded, "plain": PlainDecoder}
WAYS = [(way, family) for way in ("shared", "fixed") for family in FAMILIES] + [
    ("plain", family) for family in (*FAMILIES, *OTHERS)
]


def logits_of(policy, row):
    with torch.no_grad():
        return policy.model(torch.tensor([row]), use_cache=False).logits[0, -1]


class Growing:
    """A decoder and, beside it, all the tokens of each of its rows."""

    def __init__(self, kind, policy, prompts, capacity, *, tolerance=1e-5):
        self.policy, self.tolerance, self.rows = policy, tolerance, [list(prompt) for prompt in prompts]
        with torch.inference_mode():
            self.decoder = kind(policy, prompts, capacity)
            self.compare(self.decoder.prefill())

    def compare(self, logits):
        expected = torch.stack([logits_of(self.policy, row) for row in self.rows])
        high = torch.promote_types(expected.dtype, torch.float32)
        found, expected = logits.to(high).log_softmax(-1), expected.to(high).log_softmax(-1)
        torch.testing.assert_close(found, expected, rtol=0, atol=self.tolerance)

    def grow(self, tokens):
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        with torch.inference_mode():
            self.compare(self.decoder.step(torch.tensor(tokens)))

    def keep(self, places):
        with torch.inference_mode():
            if self.decoder.keep(torch.tensor(places)):
                self.rows = [self.rows[place] for place in places]


def tokens_for(growing, seed):
    return torch.randint(2, VOCABULARY, (len(growing.rows),), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize(("way", "family"), WAYS)
def test_logits_are_those_of_the_whole_row(way, family):
    policy = make_small_policy(family)
    growing = Growing(DECODERS[way], policy, PROMPTS, 8, tolerance=1e-4 if family == "mamba" else 1e-5)
    for number, leaving in enumerate([[], [0, 5], [], [1], [0], []]):  # at last some prompts have no row any more
        growing.grow(tokens_for(growing, number))
        if leaving:
            growing.keep([place for place in range(len(growing.rows)) if place not in leaving])
    assert len(growing.rows) == (6 if way == "fixed" else 2)  # there too few at a time to record anew
    assert max(map(len, growing.rows)) == 6 + 6


@pytest.mark.parametrize("way", DECODERS)
def test_adapters(way):
    growing = Growing(DECODERS[way], policy_of(add_lora(make_model("qwen3"))), PROMPTS, 4)
    for number in range(3):
        growing.grow(tokens_for(growing, number))


@pytest.mark.parametrize("heads", [1, 4])
def test_heads_that_share_keys(heads):
    growing = Growing(SharedDecoder, make_small_policy("llama", num_key_value_heads=heads), PROMPTS, 4)
    for number in range(3):
        growing.grow(tokens_for(growing, number))


@pytest.mark.slow
@pytest.mark.parametrize("way", DECODERS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_whoever_leaves_and_whenever(way, data):
    prompts = data.draw(st.lists(st.lists(st.integers(3, 5), min_size=1, max_size=4), min_size=1, max_size=7))
    growing = Growing(DECODERS[way], make_small_policy("qwen3"), prompts, 4)
    for number in range(4):
        growing.grow(tokens_for(growing, number))
        growing.keep(sorted(data.draw(st.sets(st.integers(0, len(growing.rows) - 1), min_size=1))))


@pytest.mark.parametrize("way", DECODERS)
def test_every_different_prompt_is_read_once(way):
    policy = make_small_policy("qwen3")
    assert policy.split.body is not None  # found out by reading a few tokens, before anyone counts
    shapes = []
    policy.model.get_input_embeddings().register_forward_hook(lambda _, ids, __: shapes.append(tuple(ids[0].shape)))
    with torch.inference_mode():
        decoder = DECODERS[way](policy, PROMPTS, 4)
        decoder.prefill()
        decoder.step(torch.tensor([3] * 6))
        assert decoder.keep(torch.tensor([0, 2, 5]))
        decoder.step(torch.tensor([3] * 3))
    # four different prompts: as wide as the longest, or one row of 1 + 6 + 4 tokens, as [5, 6] is the beginning of one
    assert shapes == [(4, 6) if way == "plain" else (1, 11), (6, 1), (3, 1)]


def test_what_others_hold_changes_nothing():
    policy = make_small_policy("qwen3")
    found = []
    for other in ([5, 6, 7], [8, 9, 10]):  # of the same shape
        with torch.inference_mode():
            decoder = SharedDecoder(policy, [[4, 5], other, [4, 5]], 4)
            found.append([decoder.prefill()[0], decoder.step(torch.tensor([6, other[0], 7]))[0]])
    for one, another in zip(*found, strict=True):
        assert torch.equal(one, another)


def test_a_row_that_has_ended_is_fed_beyond_the_context_without_harm():
    # one row of sixteen ends at the last position of the context and is not worth taking out
    policy = make_small_policy("gpt2", n_positions=8)
    growing = Growing(SharedDecoder, policy, [[4, 5, 6, 7, 8, 9], *[[4, 5]] * 15], 6)
    growing.grow([3] * 16)
    growing.grow([3] * 16)  # the first row has 8 tokens now
    with torch.inference_mode():
        for place in range(2):
            logits = growing.decoder.step(torch.tensor([5] * 16))
            expected = logits_of(policy, [4, 5, 3, 3] + [5] * (place + 1))
            torch.testing.assert_close(logits[1], expected, rtol=0, atol=1e-4)


def test_the_fastest_that_a_model_takes():
    assert isinstance(make_decoder(make_small_policy("gemma"), PROMPTS, 4), SharedDecoder)
    assert isinstance(make_decoder(make_small_policy("gemma2"), PROMPTS, 4), PlainDecoder)


def test_the_attention_of_the_model_is_left_as_it_was():
    policy = make_small_policy("qwen3")
    before = policy.model.config._attn_implementation
    growing = Growing(SharedDecoder, policy, PROMPTS, 4)
    growing.grow([3] * 6)
    assert policy.model.config._attn_implementation == before


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.bfloat16, 0.15)])
@pytest.mark.parametrize("way", DECODERS)
def test_other_types(way, dtype, tolerance):
    growing = Growing(DECODERS[way], make_small_policy("gpt2", dtype=dtype), PROMPTS, 4, tolerance=tolerance)
    for number in range(3):
        growing.grow(tokens_for(growing, number))


@NO_GPU
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma", "gpt2"])
@pytest.mark.parametrize("prompts", [PROMPTS, [[5, 6, 7]] * 6], ids=["different", "alike"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.15)])
def test_a_recording_gives_what_one_by_one_gives(family, lora, prompts, dtype, tolerance):
    model = make_model(family)
    policy = policy_of((add_lora(model) if lora else model).to("cuda", dtype))
    with torch.inference_mode():
        recorded, plain = make_decoder(policy, prompts, 16), SharedDecoder(policy, prompts, 16)
        assert isinstance(recorded, RecordedDecoder)
        compare_on_gpu(recorded.prefill(), plain.prefill(), tolerance)
        for number in range(12):
            rows = len(recorded.positions)
            tokens = torch.randint(2, VOCABULARY, (rows,), generator=torch.Generator().manual_seed(number)).cuda()
            compare_on_gpu(recorded.step(tokens), plain.step(tokens), tolerance)
            assert recorded.recording is not None
            if number == 5:
                kept = torch.tensor([0, 2, 5], device="cuda")
                assert recorded.keep(kept)
                assert plain.keep(kept)


def compare_on_gpu(found, expected, tolerance):
    torch.testing.assert_close(found.log_softmax(-1), expected.log_softmax(-1), rtol=0, atol=tolerance)


@NO_GPU
def test_what_cannot_be_recorded_is_done_one_by_one(caplog):
    policy = policy_of(make_model("qwen3").to("cuda"))
    policy.find_out()
    policy.model.get_input_embeddings().register_forward_hook(lambda *given: look(given[1][0]))
    with torch.inference_mode(), caplog.at_level("INFO"):
        decoder, plain = make_decoder(policy, PROMPTS, 16), SharedDecoder(policy, PROMPTS, 16)
        compare_on_gpu(decoder.prefill(), plain.prefill(), 1e-4)
        for number in range(3):
            tokens = torch.full((6,), 3 + number, device="cuda")
            compare_on_gpu(decoder.step(tokens), plain.step(tokens), 1e-4)
    assert decoder.recording is None
    assert caplog.text.count("without recording") == 1


def look(ids):
    assert int(ids.sum()) > 0  # waits for the GPU


def test_a_model_without_a_cache_that_is_known():
    with pytest.raises(PolicyError, match="RwkvForCausalLM gives no cache") as caught:
        PlainDecoder(policy_of(make_model("rwkv", attention_hidden_size=32)), PROMPTS, 4).prefill()
    assert "past_key_values" in caught.value.fix

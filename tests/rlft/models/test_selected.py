"""Chunked log-probabilities equal the plain ones, forward and backward, and keep nothing of tokens times vocabulary."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraConfig
from torch import nn

from benchmarks.logprob_memory import measure
from rlft.models.head import Head, selected_logprobs

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
WAYS = {"kept": 1 << 20, "chunked": 8 * 4 * 6}  # six float32 rows of a vocabulary of eight, or fewer


def make(tokens=9, vocabulary=8, width=5, *, dtype=torch.float64, bias=True, softcap=None, seed=0):
    """Hidden states, a head and token ids, with logits of some size."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(width, vocabulary, bias=bias, dtype=dtype)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=dtype) * 2
    hidden = torch.randn(tokens, width, generator=generator, dtype=dtype).requires_grad_()
    return hidden, Head(layer, softcap), torch.randint(vocabulary, (tokens,), generator=generator)


def plain(hidden, head, token_ids, temperature):
    """Softmax over all logits at once, in float64."""
    everything = (head.logits(hidden).double() / temperature).log_softmax(-1)
    entropy = torch.special.entr(everything.exp()).sum(-1).detach()
    return everything.gather(-1, token_ids[:, None]).squeeze(-1), entropy


def gradients(logprobs, hidden, head):
    """Gradients of a weighted sum, so that no two tokens weigh the same."""
    weights = torch.linspace(-1, 2, len(logprobs), dtype=logprobs.dtype)
    inputs = [t for t in (hidden, *head.layer.parameters()) if t.requires_grad]
    return torch.autograd.grad((logprobs * weights).sum(), inputs)


def twin(hidden, head):
    """The same numbers in float64."""
    layer = nn.Linear(head.layer.in_features, head.layer.out_features, head.layer.bias is not None, dtype=torch.float64)
    layer.load_state_dict(head.layer.state_dict())
    return hidden.detach().double().requires_grad_(), Head(layer, head.softcap)


class Wrapped(nn.Module):
    """A head of a kind that is not known: the way of any module."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, hidden):
        return self.linear(hidden)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    tokens=st.integers(0, 12),
    vocabulary=st.integers(1, 20),
    width=st.integers(1, 6),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    bias=st.booleans(),
    softcap=st.sampled_from([None, 3.0]),
    temperature=st.sampled_from([1.0, 0.7, 2.0]),
    max_chunk_bytes=st.integers(1, 600),
    known=st.booleans(),
)
def test_any_chunk_gives_the_plain_numbers(
    tokens, vocabulary, width, dtype, bias, softcap, temperature, max_chunk_bytes, known
):
    hidden, head, ids = make(tokens, vocabulary, width, dtype=dtype, bias=bias, softcap=softcap)
    expected, expected_entropy = plain(*twin(hidden, head), ids, temperature)
    used = head if known else Head(Wrapped(head.layer), softcap)
    found = selected_logprobs(hidden, used, ids, temperature, max_chunk_bytes=max_chunk_bytes)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype], "check_dtype": False}
    torch.testing.assert_close(found.logprobs, expected, **close)
    torch.testing.assert_close(found.entropy, expected_entropy, **close)
    assert found.logprobs.dtype == found.entropy.dtype == dtype
    assert not found.entropy.requires_grad
    reference = twin(hidden, head)
    expected_gradients = gradients(plain(*reference, ids, temperature)[0], *reference)
    for one, other in zip(gradients(found.logprobs, hidden, head), expected_gradients, strict=True):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_gradcheck(max_chunk_bytes, known, softcap):
    hidden, head, ids = make(softcap=softcap)
    layer = head.layer if known else Wrapped(head.layer)

    def function(hidden, *_):
        return selected_logprobs(hidden, Head(layer, softcap), ids, 0.7, max_chunk_bytes=max_chunk_bytes).logprobs

    assert torch.autograd.gradcheck(function, (hidden, *layer.parameters()))


def test_a_number_by_hand():
    # logits (0, ln 3) at temperature 1: probabilities 1/4 and 3/4; entropy ln 4 - 3/4 ln 3.
    # At temperature 1/2 they are (0, ln 9): 1/10 and 9/10.
    layer = nn.Linear(1, 2, bias=False)
    layer.weight.data = torch.tensor([[0.0], [math.log(3)]])
    for max_chunk_bytes in (4, 1 << 10):
        found = selected_logprobs(
            torch.ones(2, 1), Head(layer), torch.tensor([0, 1]), 1.0, max_chunk_bytes=max_chunk_bytes
        )
        torch.testing.assert_close(found.logprobs, torch.tensor([0.25, 0.75]).log())
        torch.testing.assert_close(found.entropy, torch.full((2,), math.log(4) - 0.75 * math.log(3)))
        colder = selected_logprobs(torch.ones(1, 1), Head(layer), torch.tensor([1]), 0.5)
        torch.testing.assert_close(colder.logprobs, torch.tensor([0.9]).log())


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
def test_extreme_logits(max_chunk_bytes):
    hidden, head, ids = make(dtype=torch.float32, bias=False)
    hidden = (hidden * 2500).detach().requires_grad_()  # logits reach 1e4 and more, of either sign
    found = selected_logprobs(hidden, head, ids, 0.7, max_chunk_bytes=max_chunk_bytes)
    reference = twin(hidden, head)
    expected, entropy = plain(*reference, ids, 0.7)
    assert 1e4 < head.logits(hidden).abs().max() < 1e5
    torch.testing.assert_close(found.logprobs, expected, rtol=1e-5, atol=1e-2, check_dtype=False)
    torch.testing.assert_close(found.entropy, entropy, rtol=0, atol=1e-2, check_dtype=False)
    for one, other in zip(gradients(found.logprobs, hidden, head), gradients(expected, *reference), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * other.abs().max().item(), check_dtype=False)


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("forbidden", [[0], [3, 4], [0, 1, 2, 3, 4]])
def test_a_token_of_no_probability_leaves_the_others_numbers(max_chunk_bytes, forbidden):
    hidden, head, _ = make()
    head.layer.bias.data[forbidden] = -math.inf
    ids = torch.tensor([5, 6, 7, 5, 6, 7, 5, 6, forbidden[0]])
    found = selected_logprobs(hidden, head, ids, 1.0, max_chunk_bytes=max_chunk_bytes)
    reference = twin(hidden, head)
    expected, entropy = plain(*reference, ids, 1.0)
    assert found.logprobs[-1] == -math.inf
    torch.testing.assert_close(found.logprobs, expected)
    torch.testing.assert_close(found.entropy, entropy)
    for one, other in zip(
        gradients(found.logprobs[:-1], hidden, head), gradients(expected[:-1], *reference), strict=True
    ):
        torch.testing.assert_close(one, other)
        assert one.isfinite().all()


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
def test_only_what_is_trained_gets_a_gradient(max_chunk_bytes):
    hidden, head, ids = make()
    all_gradients = gradients(selected_logprobs(hidden, head, ids, 1.0).logprobs, hidden, head)
    head.layer.requires_grad_(False)
    (of_hidden,) = gradients(
        selected_logprobs(hidden, head, ids, 1.0, max_chunk_bytes=max_chunk_bytes).logprobs, hidden, head
    )
    torch.testing.assert_close(of_hidden, all_gradients[0])
    head.layer.requires_grad_(True)
    of_layer = gradients(
        selected_logprobs(hidden.detach(), head, ids, 1.0, max_chunk_bytes=max_chunk_bytes).logprobs,
        hidden.detach(),
        head,
    )
    torch.testing.assert_close(of_layer, all_gradients[1:])


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
def test_twice_in_one_graph_and_twice_backward(max_chunk_bytes):
    hidden, head, ids = make()
    one = selected_logprobs(hidden, head, ids, 1.0, max_chunk_bytes=max_chunk_bytes).logprobs
    other = selected_logprobs(hidden * 0.5, head, ids.flip(0), 0.7, max_chunk_bytes=max_chunk_bytes).logprobs
    loss = (one.exp() * other).sum()
    expected = (plain(hidden, head, ids, 1.0)[0].exp() * plain(hidden * 0.5, head, ids.flip(0), 0.7)[0]).sum()
    inputs = (hidden, *head.layer.parameters())
    wanted = torch.autograd.grad(expected, inputs)
    torch.testing.assert_close(torch.autograd.grad(loss, inputs, retain_graph=True), wanted)
    torch.testing.assert_close(torch.autograd.grad(loss, inputs), wanted)


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradient(max_chunk_bytes, known, mode):
    hidden, head, ids = make()
    expected, entropy = plain(hidden, head, ids, 0.7)
    with mode():
        used = head if known else Head(Wrapped(head.layer))
        found = selected_logprobs(hidden, used, ids, 0.7, max_chunk_bytes=max_chunk_bytes)
        short = selected_logprobs(hidden, used, ids, 0.7, with_entropy=False, max_chunk_bytes=max_chunk_bytes)
    assert not found.logprobs.requires_grad
    torch.testing.assert_close(found.logprobs, expected.detach())
    torch.testing.assert_close(found.entropy, entropy)
    torch.testing.assert_close(short.logprobs, found.logprobs)
    assert short.entropy is None


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("known", [True, False])
def test_gradients_without_entropy(max_chunk_bytes, known):
    hidden, head, ids = make(softcap=4.0)
    used = head if known else Head(Wrapped(head.layer), softcap=4.0)
    found = selected_logprobs(hidden, used, ids, 0.7, with_entropy=False, max_chunk_bytes=max_chunk_bytes)
    expected = gradients(plain(hidden, head, ids, 0.7)[0], hidden, head)
    torch.testing.assert_close(gradients(found.logprobs, hidden, head), expected)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("max_chunk_bytes", [1 << 16, 1 << 24])
@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_weights_and_float32_logits(device, max_chunk_bytes):
    hidden, head, ids = make(300, 1000, 32, dtype=torch.bfloat16, softcap=20.0)
    reference = twin(hidden, head)
    expected, entropy = plain(*reference, ids, 0.7)
    hidden = hidden.detach().to(device).requires_grad_()
    head.layer.to(device)
    found = selected_logprobs(hidden, head, ids.to(device), 0.7, max_chunk_bytes=max_chunk_bytes)
    assert found.logprobs.dtype == torch.float32
    # logits rounded to bfloat16 would be off by 20 * 2^-9 = 0.04
    torch.testing.assert_close(found.logprobs.cpu(), expected, rtol=0, atol=1e-4, check_dtype=False)
    torch.testing.assert_close(found.entropy.cpu(), entropy, rtol=0, atol=1e-4, check_dtype=False)
    (found.logprobs * torch.linspace(-1, 2, 300, device=device)).sum().backward()
    wanted = gradients(expected, *reference)
    for one, other in zip((hidden, *head.layer.parameters()), wanted, strict=True):
        assert one.grad.dtype == torch.bfloat16
        assert (one.grad.cpu().double() - other).norm() < 0.005 * other.norm()  # 2^-9 for the type, and again


@pytest.mark.parametrize("device", DEVICES)
def test_a_half_precision_head_samples_what_is_trained(device):
    hidden, head, ids = make(60, 1000, 32, dtype=torch.bfloat16, softcap=20.0)
    head.layer.to(device)
    hidden, ids = hidden.detach().to(device), ids.to(device)
    logits = head.logits(hidden.view(3, 20, 32))
    assert logits.shape == (3, 20, 1000)
    assert logits.dtype == torch.float32
    logprobs = (logits.flatten(0, 1) / 0.7).log_softmax(-1).gather(1, ids[:, None]).squeeze(1)
    torch.testing.assert_close(logprobs, selected_logprobs(hidden, head, ids, 0.7).logprobs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("max_chunk_bytes", WAYS.values(), ids=WAYS)
def test_an_adapter_on_the_head(max_chunk_bytes):
    hidden, head, ids = make(dtype=torch.float32)
    config = LoraConfig(r=2, lora_alpha=4)
    layer = LoraLinear(head.layer, "default", config=config, r=2, lora_alpha=4)
    layer.lora_B["default"].weight.data.normal_(generator=torch.Generator().manual_seed(1))
    head.layer.requires_grad_(False)
    adapted = Head(layer, 5.0)
    found = selected_logprobs(hidden, adapted, ids, 0.7, max_chunk_bytes=max_chunk_bytes)
    expected, entropy = plain(hidden, adapted, ids, 0.7)
    torch.testing.assert_close(found.logprobs, expected, check_dtype=False, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.entropy, entropy, check_dtype=False, rtol=1e-5, atol=1e-5)
    one, other = gradients(found.logprobs, hidden, adapted), gradients(expected, hidden, adapted)
    assert len(one) == 3, "hidden states and the adapter's two matrices"
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_model_s_own_logits_go_through_a_head_that_does_nothing():
    hidden, head, ids = make()
    logits = head.logits(hidden)
    found = selected_logprobs(logits, Head(nn.Identity()), ids, 0.7, max_chunk_bytes=200)
    expected = gradients(plain(hidden, head, ids, 0.7)[0], hidden, head)
    torch.testing.assert_close(gradients(found.logprobs, hidden, head), expected)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("trained", [True, False])
def test_nothing_of_tokens_times_vocabulary_is_kept(known, trained):
    hidden, head, ids = make(64, 500, 4, dtype=torch.float32)
    head.layer.requires_grad_(trained)
    used = head if known else Head(Wrapped(head.layer))
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        found = selected_logprobs(hidden, used, ids, 1.0, max_chunk_bytes=4 * 2000)
        found.logprobs.sum()
    assert sum(kept.values()) < 4000  # the weight is 2,000 numbers; logits are 32,000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": torch.tensor([0, 8])}, "token_ids go from 0 to 8, in a vocabulary of 8"),
        ({"token_ids": torch.tensor([-100, 1])}, "token_ids go from -100"),
        ({"token_ids": torch.tensor([1])}, "do not fit together"),
        ({"hidden": torch.zeros(1, 2, 5)}, "do not fit together"),
        ({"temperature": 0.0}, "temperature is 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    _, head, _ = make(dtype=torch.float32)
    arguments = {"hidden": torch.zeros(2, 5), "token_ids": torch.tensor([0, 1]), "temperature": 1.0} | changes
    with pytest.raises(ValueError, match=message):
        selected_logprobs(head=head, **arguments)


@pytest.mark.slow
def test_memory_is_some_chunks():
    row = measure("rlft", tokens=512, vocabulary=151_936, width=8, dtype="float32")
    assert row["peak_mib"] > 20, "a block of logits and its exponentials are seen"
    assert row["peak_mib"] < 100  # the logits alone are 297

"""Under a model of transformers: only while it is asked for, and never with a feature left out in silence."""

from types import SimpleNamespace

import pytest
import torch

from rlft.models.attention.interface import NAME, UnsupportedAttention, _forward, attending
from tests.rlft.models.small_models import FAMILIES, add_lora, make_model

IDS = torch.tensor([[3, 4, 5]])


class Recorder:
    """Answers with its queries, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def attend(self, layer, query, key, value, scale):
        self.asked.append((layer, tuple(query.shape), tuple(key.shape), scale))
        return query


def call(**changes):
    query, key = torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 3, 8)
    given = {"query": query, "key": key, "value": key, "attention_mask": None, "attention": Recorder()} | changes
    return _forward(SimpleNamespace(layer_idx=1), **given), given["attention"]


def test_what_is_asked_and_in_which_layout_it_is_answered():
    query = torch.arange(96.0).view(1, 4, 3, 8)
    (output, weights), recorder = call(query=query, scaling=0.3)
    assert recorder.asked == [(1, (1, 4, 3, 8), (1, 2, 3, 8), 0.3)]
    assert torch.equal(output, query.transpose(1, 2))  # tokens before heads, as models take it
    assert weights is None


def test_the_usual_scale_where_a_model_gives_none():
    (_, recorder) = call()
    assert recorder.asked[0][3] == pytest.approx(8**-0.5)


def test_what_models_say_and_nobody_needs():
    said = {"is_causal": True, "use_cache": False, "sliding_window": None, "softcap": None, "s_aux": None}
    _, recorder = call(position_ids=torch.zeros(1), **said)
    assert recorder.asked == call()[1].asked


REFUSED = {
    "a mask": {"attention_mask": torch.zeros(1, 1, 3, 3)},
    "dropout": {"dropout": 0.1},
    "a window": {"sliding_window": 4096},
    "a softcap": {"softcap": 50.0},
    "sinks": {"s_aux": torch.zeros(4)},
    "a bias": {"position_bias": torch.zeros(1)},
    "values of another width": {"value": torch.zeros(1, 2, 3, 4)},
    "keys from before, a prefix or a cache": {"key": torch.zeros(1, 2, 9, 8), "value": torch.zeros(1, 2, 9, 8)},
    "a pass that was not ours": {"attention": None},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_left_out_is_refused(what):
    with pytest.raises(UnsupportedAttention):
        call(**REFUSED[what])


def test_the_feature_is_named():
    with pytest.raises(UnsupportedAttention, match="s_aux, softcap"):
        call(softcap=50.0, s_aux=torch.zeros(4))


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_only_inside_and_every_layer(family, lora):
    model = add_lora(make_model(family)) if lora else make_model(family)
    before = model.config._attn_implementation
    outside = model(IDS).logits
    recorder = Recorder()
    with attending(model):
        assert model.config._attn_implementation == NAME
        model(IDS, use_cache=False, attention=recorder)
    assert [layer for layer, *_ in recorder.asked] == [0, 1]
    assert model.config._attn_implementation == before != NAME
    assert torch.equal(model(IDS).logits, outside)


def test_an_error_inside_puts_the_model_back():
    model = make_model("qwen3")
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedAttention), attending(model):
        model(IDS, use_cache=False)  # without `attention=`
    assert model.config._attn_implementation == before


def test_inside_of_inside():
    model = make_model("qwen3")
    before = model.config._attn_implementation
    with attending(model):
        with attending(model):
            pass
        assert model.config._attn_implementation == NAME
    assert model.config._attn_implementation == before


def test_a_model_in_training_mode_with_dropout_is_refused():
    model = make_model("gpt2", attn_pdrop=0.1).train()
    with pytest.raises(UnsupportedAttention), attending(model):
        model(IDS, use_cache=False, attention=Recorder())

"""Takes a causal language model apart: into a backbone that gives hidden states, and a head that makes logits of them.

With the two apart, log-probabilities can be computed without logits of tokens times vocabulary
(`rlft.models.selected`).
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor, nn

from rlft.models.blockwise import HALVES, Link, blockwise_logits, precision

logger = logging.getLogger(__name__)

# Raw logits that the model's own scaling is measured on: the scale shows at 1, a softcap at 1e30, and whether there is
# anything else between -100 and 100.
_ONE, _HUGE, _MODERATE = 1.0, 1e30, 100.0


@dataclass(frozen=True, slots=True)
class Head:
    """Holds an output layer and what the model does to its output.

    logits = scale * layer(hidden), or softcap * tanh(scale * layer(hidden) / softcap) where there is a softcap. The
    layer works on each token alone.
    """

    layer: nn.Module
    scale: float = 1.0
    softcap: float | None = None

    @property
    def linear(self) -> nn.Linear | None:
        """The layer if it is a weight and a bias and nothing else, otherwise `None`, as for an adapter's layer."""
        layer = self.layer
        if type(layer) is not nn.Linear or "forward" in vars(layer):  # some libraries replace `forward` of an instance
            return None
        return None if layer._forward_hooks or layer._forward_pre_hooks else layer

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [..., vocabulary] from hidden states [..., width], in float32 or float64.

        For a linear layer of half precision the products are float32, as in `selected_logprobs`, and have no gradient.
        """
        linear = self.linear
        if linear is not None and linear.weight.dtype in HALVES:
            return blockwise_logits(hidden.flatten(0, -2), linear, Link(self.scale, self.softcap)).unflatten(
                0, hidden.shape[:-1]
            )
        raw = self.layer(hidden)
        raw = raw.to(precision(raw)) * self.scale
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)


@dataclass(frozen=True, slots=True)
class SplitModel:
    """Holds a live model as `backbone` and `head`: the head's logits of the backbone's output are the model's logits.

    Adapters stay active in both and are switched off by the model's `disable_adapter`. Where a model could not be taken
    apart, `body` is `None`: the backbone gives the model's own logits, and the head passes them on. `slices_logits`
    says whether that model has the argument `logits_to_keep`.
    """

    model: Any
    body: nn.Module | None
    head: Head
    slices_logits: bool = False

    def backbone(self, *, logits_to_keep: int = 0, **inputs: Any) -> Tensor:
        """Return the head's input, [rows, tokens, width], at the last `logits_to_keep` tokens (0: at all of them).

        `inputs` are those of the model, such as `input_ids`, `attention_mask`, `position_ids` and `past_key_values`
        (which grows in place).
        """
        if self.body is not None:
            return self.body(**inputs)[0][:, -logits_to_keep:]
        if self.slices_logits:
            inputs["logits_to_keep"] = logits_to_keep
        return self.model(**inputs).logits[:, -logits_to_keep:]


class _NotUnderstoodError(Exception):
    """Says why a model cannot be taken apart; it never leaves this file."""


def split_model(model: Any) -> SplitModel:
    """Take apart a model of transformers, with or without an adapter of peft.

    Nothing is taken on trust: the parts are compared with the whole on a few tokens (three short passes without
    gradient; the model's state and the random numbers stay as they were). Where they differ, or are not found, a
    warning says so and the result goes through the model's own logits, whose memory grows with tokens times
    vocabulary. Split again after layers were exchanged, as by adding an adapter.
    """
    try:
        base = _without_adapter(model)
        body, layer = base.base_model, base.get_output_embeddings()
        if body is base or layer is None:
            raise _NotUnderstoodError("no backbone and output layer of its own")
        with _probing(model):
            return SplitModel(model, body, _find_head(model, body, layer))
    except Exception as cause:  # whatever a model's code raises, its own logits can still be used
        logger.warning(
            "the output layer of %s is not understood (%s): memory will grow with tokens times vocabulary",
            type(model).__name__,
            str(cause).partition("\n")[0] or type(cause).__name__,
        )
        inner = model.get_base_model() if isinstance(model, PeftModel) else model
        slices = "logits_to_keep" in inspect.signature(inner.forward).parameters
        return SplitModel(model, None, Head(nn.Identity()), slices)


def _without_adapter(model: Any) -> Any:
    """Return the model of transformers, in which the adapter's layers stay.

    Raises _NotUnderstoodError for an adapter that does more than change layers.
    """
    if not isinstance(model, PeftModel):
        return model
    config: Any = model.active_peft_config
    if config.is_prompt_learning or getattr(config, "alora_invocation_tokens", None):
        raise _NotUnderstoodError("its adapter changes the inputs, not only the layers")
    return model.get_base_model()


@contextmanager
def _probing(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode without gradient; modes and random numbers are as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    device = next(model.parameters()).device
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            model.eval()
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _find_head(model: Any, body: nn.Module, layer: nn.Module) -> Head:
    """Return the head after checking that it gives the model's logits. Raises _NotUnderstoodError if it does not."""
    device = next(model.parameters()).device
    vocabulary = model.config.get_text_config().vocab_size
    ids = (torch.arange(4, device=device) % vocabulary)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    hidden = body(**inputs)[0]
    given, raw, scaled = _exchange_output(model, layer, inputs)
    if not _close(given, hidden):  # logits alone would not show it where the layer's weights are zero
        raise _NotUnderstoodError("its output layer does not take what its backbone gives")
    head = Head(layer, *_fit(raw, scaled))
    if not _close(head.logits(hidden), model(**inputs).logits):
        raise _NotUnderstoodError("its parts do not give its logits")
    return head


def _exchange_output(model: Any, layer: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Run the model with chosen numbers in place of its output layer's output.

    Returns the layer's input, these numbers, and the logits that the model makes of them. So its scaling is seen over a
    wide range, whatever the weights are: a softcap would not show in small logits.
    """
    calls: list[tuple[Tensor, Tensor]] = []

    def exchange(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
        raw = torch.linspace(-_MODERATE, _MODERATE, output.numel(), dtype=torch.float64, device=output.device)
        raw[0], raw[1] = _ONE, _HUGE
        calls.append((arguments[0], raw.view(output.shape)))
        return calls[-1][1].clone()

    handle = layer.register_forward_hook(exchange)
    try:
        scaled = model(**inputs).logits
    finally:
        handle.remove()
    if len(calls) != 1 or scaled.shape != calls[0][1].shape:
        raise _NotUnderstoodError("its output layer does not make its logits, one for one")
    return *calls[0], scaled


def _fit(raw: Tensor, scaled: Tensor) -> tuple[float, float | None]:
    """Return the scale and softcap that make `scaled` of `raw`. Raises _NotUnderstoodError if there are none."""
    raw, scaled = raw.flatten(), scaled.flatten().double()
    at_one, at_huge = float(scaled[0]), float(scaled[1])
    scale, softcap = at_one, None
    if not math.isclose(at_huge, at_one * _HUGE, rel_tol=1e-2):
        softcap = at_huge  # tanh of a huge number is 1
        scale = softcap * math.atanh(at_one / softcap)
    expected = Head(nn.Identity(), scale, softcap).logits(raw)
    if scale == 0 or not torch.allclose(scaled, expected, rtol=1e-5, atol=0):
        raise _NotUnderstoodError("it does more to its logits than to scale and to cap them")
    return scale, softcap


def _close(one: Tensor, other: Tensor) -> bool:
    """Return whether the two are equal but for the rounding of their type, measured against the largest number."""
    tolerance = 1e-4 if one.dtype == other.dtype == torch.float32 else 3e-2
    tolerance = 1e-9 if one.dtype == other.dtype == torch.float64 else tolerance
    difference = (one.double() - other.double()).abs().max()
    return one.shape == other.shape and bool(difference <= tolerance * other.abs().max())

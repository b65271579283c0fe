"""Takes a causal language model apart: into a backbone that gives hidden states, and a head that makes logits of them.

With the two apart, log-probabilities can be computed without logits of tokens times vocabulary
(`rlft.models.selected`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor, nn

from rlft.models.blockwise import HALVES, Link, blockwise_logits, precision

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Head:
    """Holds an output layer and what the model does to its output.

    logits = layer(hidden), or softcap * tanh(layer(hidden) / softcap) where there is a softcap, as in Gemma 2.
    The layer works on each token alone.
    """

    layer: nn.Module
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
            return blockwise_logits(hidden.flatten(0, -2), linear, Link(1.0, self.softcap)).unflatten(
                0, hidden.shape[:-1]
            )
        raw = self.layer(hidden)
        raw = raw.to(precision(raw))
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


def split_model(model: Any) -> SplitModel:
    """Take apart a model of transformers, with or without a LoRA adapter.

    Nothing is taken on trust: the parts are compared with the whole on a few tokens (two short passes without gradient;
    the model's state and the random numbers stay as they were). Where they differ, or are not found, a warning says so
    and the result goes through the model's own logits, whose memory grows with tokens times vocabulary. Split again
    after layers were exchanged, as by adding an adapter.
    """
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    body, layer = base.base_model, base.get_output_embeddings()
    head = Head(layer, getattr(model.config.get_text_config(), "final_logit_softcapping", None))
    if body is not base and layer is not None and _gives_logits(model, body, head):
        return SplitModel(model, body, head)
    logger.warning(
        "the output layer of %s is not understood: memory will grow with tokens times vocabulary", type(model).__name__
    )
    slices = "logits_to_keep" in inspect.signature(base.forward).parameters
    return SplitModel(model, None, Head(nn.Identity()), slices)


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


def _gives_logits(model: Any, body: nn.Module, head: Head) -> bool:
    """Return whether the head makes the model's logits of the backbone's output."""
    device = next(model.parameters()).device
    ids = (torch.arange(4, device=device) % model.config.get_text_config().vocab_size)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    with _probing(model):
        return _close(head.logits(body(**inputs)[0]), model(**inputs).logits)


def _close(one: Tensor, other: Tensor) -> bool:
    """Return whether the two are equal but for the rounding of their type, measured against the largest number."""
    tolerance = 1e-4 if one.dtype == other.dtype == torch.float32 else 3e-2
    tolerance = 1e-9 if one.dtype == other.dtype == torch.float64 else tolerance
    difference = (one.double() - other.double()).abs().max()
    return one.shape == other.shape and bool(difference <= tolerance * other.abs().max())

"""Yields a live policy's weights under the names of its base model's checkpoint, for vLLM, which reads such names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn


def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights by checkpoint name, one layer at a time; an adapter's are merged into those of its layer.

    Tied weights come under each of their names, as vLLM would keep its old output layer otherwise. Where there is no
    adapter the tensors are the model's own: copy what is to be kept. Afterwards the model is as it was, byte for byte,
    also when the iteration ends early.
    """
    base: nn.Module = model.get_base_model() if isinstance(model, PeftModel) else model
    for prefix, module in base.named_modules():
        if isinstance(module, BaseTunerLayer):
            with _merged(module) as weight:
                yield f"{prefix}.weight", weight
        for name, parameter in module.named_parameters(prefix, recurse=False):
            of_adapter = any(part.startswith("lora_") for part in name.split("."))
            if not of_adapter and not name.endswith("base_layer.weight"):
                yield name.replace(".base_layer", ""), parameter.detach()


@contextmanager
def _merged(layer: Any) -> Iterator[Tensor]:
    """Provide a layer's weight with its adapters merged, and restore the layer.

    The old weight is copied back, because `unmerge` subtracts the adapters and so leaves rounding behind.
    """
    weight: nn.Parameter = layer.get_base_layer().weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            if not layer.disable_adapters:
                layer.merge()
        yield weight.detach().clone()
    finally:
        with torch.no_grad():
            if layer.merged:
                layer.unmerge()
            weight.copy_(before)

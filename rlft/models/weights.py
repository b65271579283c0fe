"""Yields a live policy's weights under the names of its base model's checkpoint, for vLLM, which reads such names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import ModulesToSaveWrapper
from torch import Tensor, nn


def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights by checkpoint name, one layer at a time; an adapter's are merged into those of its layer.

    Tied weights come under each of their names, as vLLM would keep its old output layer otherwise. Where there is no
    adapter the tensors are the model's own: copy what is to be kept. Afterwards the model is as it was, byte for byte,
    also when the iteration ends early.
    """
    base: nn.Module = model.get_base_model() if isinstance(model, PeftModel) else model
    modules: list[tuple[str, Any]] = list(base.named_modules())
    unused = {  # peft keeps two copies of such modules; this is the one that the model does not compute with
        f"{prefix}.{'modules_to_save' if module.disable_adapters else 'original_module'}."
        for prefix, module in modules
        if isinstance(module, ModulesToSaveWrapper)
    }
    for prefix, module in modules:
        if isinstance(module, BaseTunerLayer):
            with _merged(module) as weight:
                yield f"{prefix}.weight", weight
            unused.add(f"{prefix}.base_layer.weight")
        parameters: dict[str, nn.Parameter] = vars(module)["_parameters"]
        for name, parameter in parameters.items():
            full = f"{prefix}.{name}" if prefix else name
            if parameter is not None and not _belongs_to_adapter(full) and not full.startswith(tuple(unused)):
                yield _plain(full), parameter.detach()


@contextmanager
def _merged(layer: Any) -> Iterator[Tensor]:
    """Provide a layer's weight with its adapters merged, and restore the layer.

    The old weight is copied back, because `unmerge` subtracts the adapters and so leaves rounding behind.
    """
    weight = _weight(layer)
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


def _weight(layer: Any) -> nn.Parameter:
    return layer.get_base_layer().weight


def _belongs_to_adapter(name: str) -> bool:
    return any(part.startswith("lora_") for part in name.split("."))


def _plain(name: str) -> str:
    """Return a parameter's name without those of peft's wrappers."""
    parts = name.split(".")
    if "modules_to_save" in parts:
        place = parts.index("modules_to_save")
        del parts[place : place + 2]  # with the adapter's name, which follows
    return ".".join(part for part in parts if part not in ("base_layer", "original_module"))

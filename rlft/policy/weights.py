"""A live policy's weights as its base model's checkpoint names them: for whatever reads such checkpoints."""

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
    """All weights by checkpoint name, one layer at a time; an adapter's are merged into those of its layer.

    Weights that are tied come under each of their names. Where there is no adapter the tensors are the model's own:
    copy what is to be kept. The model is as it was afterwards, byte for byte, also when the iteration ends early.
    """
    base: nn.Module = model.get_base_model() if isinstance(model, PeftModel) else model
    modules: list[tuple[str, Any]] = list(base.named_modules())
    unused = {
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
    """A layer's weight with its adapters in it; the old one is put back, as taking them out leaves rounding behind."""
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
    """Without the names of peft's wrappers."""
    parts = name.split(".")
    if "modules_to_save" in parts:
        place = parts.index("modules_to_save")
        del parts[place : place + 2]  # and the adapter's name
    return ".".join(part for part in parts if part not in ("base_layer", "original_module"))

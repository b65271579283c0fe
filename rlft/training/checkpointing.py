"""Gradient checkpointing (arXiv:1604.06174) without what transformers ties to it: training mode and its dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def gradient_checkpointing(model: Any, wanted: bool) -> Iterator[None]:
    """Inside, layers keep only their inputs and compute the rest again in the backward pass, if `wanted`.

    Raises ValueError for a model that has no such layers.
    """
    if not wanted:
        yield
        return
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} cannot checkpoint; set training.gradient_checkpointing to false")
    for layer in layers:
        layer._gradient_checkpointing_func = _twice(layer)
        layer.gradient_checkpointing = layer.training = True  # a layer asks for both before it calls the function
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = layer.training = False


def _twice(layer: GradientCheckpointingLayer) -> Callable[..., Any]:
    """Compute `layer` again for its gradient, both times in evaluation mode: some have a dropout of their own."""

    def run(function: Callable[..., Any], *inputs: Any) -> Any:
        def evaluate(*inputs: Any) -> Any:
            mode, layer.training = layer.training, False
            try:
                return function(*inputs)
            finally:
                layer.training = mode

        return checkpoint(evaluate, *inputs, use_reentrant=False)

    return run

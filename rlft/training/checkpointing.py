"""Gradient checkpointing (arXiv:1604.06174) in evaluation mode.

transformers offers it in training mode only, whose dropout would make the importance ratio differ from 1 before
anything was learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def gradient_checkpointing(model: Any, wanted: bool) -> Iterator[None]:
    """If `wanted`, make the layers keep only their inputs inside the context and compute the rest again going back.

    The backward pass must be inside, too. Raises ValueError for a model without layers that can do so.
    """
    if not wanted:
        yield
        return
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} cannot checkpoint; set training.gradient_checkpointing to false")
    for layer in layers:
        layer._gradient_checkpointing_func = _recomputed(layer)
        layer.gradient_checkpointing = layer.training = True  # a layer asks for both before it calls the function
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = layer.training = False


def _recomputed(layer: GradientCheckpointingLayer) -> Callable[..., Any]:
    """Return a function that computes `layer`, and again for its gradient, both times in evaluation mode.

    Only the flag of the layer itself is true otherwise, but some layers have a dropout of their own that looks at it.
    """

    def run(function: Callable[..., Any], *inputs: Any) -> Any:
        def evaluate(*inputs: Any) -> Any:
            mode, layer.training = layer.training, False
            try:
                return function(*inputs)
            finally:
                layer.training = mode

        return checkpoint(evaluate, *inputs, use_reentrant=False)

    return run

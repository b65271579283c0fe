"""Norms, SwiGLU and rotary positions of a model by several hands: seconds and memory of a pass forward and backward.

    python -m benchmarks.gpu.kernels '{"model": "qwen3-0.6b", ...}' --tokens 16384

`none` is the model as it is written, `rlft` the gradients by hand of `rlft.models.fused` (which a run uses in float32
on a CPU alone), `torch` torch's own `rms_norm` with the rest as it is, `liger` the kernels of liger-kernel, which need
a GPU. Every kind runs in this process on the same numbers; `difference` is how far the last hidden states are from
those of the model in float64, as a part of their norm, and `difference_of_gradients` the same of all gradients.
`peak_mib` is above weights and gradients.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Qwen3Config, Qwen3Model
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm

from benchmarks.grpo_workload import SEED, Workload
from benchmarks.machine import MIB
from rlft.models import fused as hand
from rlft.models.fused import Replacement, fused

KINDS = ("none", "rlft", "torch", "liger")
COMPARED_TOKENS = 256  # in float64
Norm = Callable[[Tensor, Tensor, float], Any]
Product = Callable[[Tensor, Tensor], Any]


def replacements(model: nn.Module, kind: str) -> Sequence[Replacement]:
    """What runs in place of the model's own operations."""
    if kind == "none":
        return ()
    if kind == "torch":
        return _place(model, lambda x, weight, eps: F.rms_norm(x, weight.shape, weight, eps))
    if kind == "rlft":
        places = _place(model, hand._RmsNorm.apply, hand._SwiGlu.apply)
        return [*places, Replacement(modeling_qwen3, hand._ROTARY, hand._apply_rotary)]
    from liger_kernel.transformers.functional import liger_rms_norm, liger_rope, liger_swiglu

    def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> Any:
        return liger_rope(q, k, cos, sin, None, unsqueeze_dim)

    places = _place(model, lambda x, weight, eps: liger_rms_norm(x, weight, eps, in_place=False), liger_swiglu)
    return [*places, Replacement(modeling_qwen3, hand._ROTARY, rope)]


def _place(model: nn.Module, norm: Norm, product: Product | None = None) -> list[Replacement]:
    """At every norm, and every gated MLP."""
    found = []
    for module in model.modules():
        if isinstance(module, Qwen3RMSNorm):
            found.append(Replacement(module, "forward", lambda x, m=module: norm(x, m.weight, m.variance_epsilon)))
        if product is not None and isinstance(module, Qwen3MLP):
            found.append(
                Replacement(module, "forward", lambda x, m=module: m.down_proj(product(m.gate_proj(x), m.up_proj(x))))
            )
    return found


def lacking(kind: str, device: str) -> str | None:
    """What this kind needs and is not there."""
    if kind == "liger" and find_spec("liger_kernel") is None:
        return "liger-kernel is not installed"
    return "liger-kernel needs a GPU" if kind == "liger" and device == "cpu" else None


def measure(workload: Workload, tokens: int) -> dict[str, Any]:
    """All kinds on one model, turn by turn."""
    torch.manual_seed(SEED)
    config: Any = Qwen3Config(**workload.shape, max_position_embeddings=max(1024, tokens))
    model = Qwen3Model(config).to(workload.device, getattr(torch, workload.dtype))
    ids = torch.randint(workload.shape["vocab_size"], (1, tokens), device=workload.device)
    absent = {kind: reason for kind in KINDS if (reason := lacking(kind, workload.device))}
    rows = {kind: [] for kind in KINDS if kind not in absent}
    for _ in range(workload.steps + 1):
        for kind, found in rows.items():
            with fused(replacements(model, kind)):
                found.append(_run(model, ids, workload.device))
    differences = _differences(model, ids[:, :COMPARED_TOKENS], list(rows))
    medians = {
        kind: {name: statistics.median(run[name] for run in found[1:]) for name in ("seconds", "peak_mib")}
        for kind, found in rows.items()
    }
    return {"kinds": {kind: medians[kind] | differences[kind] for kind in rows}, "lacking": absent, "tokens": tokens}


def _run(model: nn.Module, ids: Tensor, device: str) -> dict[str, float]:
    """One pass, forward and backward."""
    model.zero_grad(set_to_none=False)
    before = 0
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    started = time.perf_counter()
    _backward(model, ids)
    if device == "cpu":
        return {"seconds": time.perf_counter() - started, "peak_mib": 0.0}
    torch.cuda.synchronize()
    return {
        "seconds": time.perf_counter() - started,
        "peak_mib": (torch.cuda.max_memory_allocated() - before) / MIB,
    }


def _backward(model: nn.Module, ids: Tensor) -> Tensor:
    hidden = model(input_ids=ids, use_cache=False).last_hidden_state
    hidden.float().square().mul(torch.linspace(-1, 1, hidden.shape[-1], device=hidden.device)).mean().backward()
    return hidden.detach()


def _differences(model: Any, ids: Tensor, kinds: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of each kind from the model in float64, on a few tokens."""
    exact = Qwen3Model(model.config).to(ids.device, torch.float64)
    exact.load_state_dict(model.state_dict())
    expected = _outputs(exact, ids, ())
    found = {}
    for kind in kinds:
        outputs = _outputs(model, ids, replacements(model, kind))
        parts = [
            float((own.double() - other).norm() / other.norm()) for own, other in zip(outputs, expected, strict=True)
        ]
        found[kind] = {"difference": parts[0], "difference_of_gradients": parts[1]}
    return found


def _outputs(model: nn.Module, ids: Tensor, places: Sequence[Replacement]) -> tuple[Tensor, Tensor]:
    """Hidden states and all gradients, flat."""
    model.zero_grad()
    with fused(places) if places else nullcontext():
        hidden = _backward(model, ids)
    return hidden, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=json.loads, help="JSON of `Workload`, of which model, type and device count")
    parser.add_argument("--tokens", type=int, default=16_384)
    options = parser.parse_args()
    workload = Workload(**{"prompt_tokens": 0, **options.workload})
    torch.set_num_threads(workload.threads)
    sys.stdout.write(json.dumps(measure(workload, options.tokens)) + "\n")


if __name__ == "__main__":
    main()

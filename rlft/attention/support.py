"""Whether a model takes our attention: tried on a few tokens, because what a model's code does cannot be asked."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from rlft.attention.interface import attending
from rlft.attention.packed import Group, PackedGroups

_log = logging.getLogger(__name__)
_PROMPTS, _COMPLETIONS = (3, 5), ((4, 2), (3, 3, 1))
_ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative
_HALF_ROUNDING = 0.2  # of 28 layers in bfloat16 not much is left; what that would hide is looked for apart
_LEAK = 0.05  # of that: where the shapes are the same, hardly anything is rounded otherwise


def shares_prompts(model: Any) -> bool:
    """Whether `model` can encode a prompt once for several completions; if not, the log says so in one line."""
    reason = _why_not(model)
    if reason:
        _log.info("each completion is encoded with its own prompt, the plain and slower way: %s", reason)
    return reason is None


def _why_not(model: Any) -> str | None:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return _ask(model) or _try(model)
    except Exception as cause:  # whatever a model's code raises, the plain way is still open
        return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"
    finally:
        for module, mode in modes:
            module.training = mode


def _ask(model: Any) -> str | None:
    """What a few tokens would not show, from what the model says of itself."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if others := sorted(set(map(str, kinds or ())) - {"full_attention"}):
        return f"the model has layers of the kind {', '.join(others)}"
    if not kinds and getattr(config, "sliding_window", None):
        return f"its attention reaches {config.sliding_window} tokens back"
    if any(hasattr(module, "_orig_mod") or module._compiled_call_impl for module in model.modules()):
        return "it is compiled, which would start again for every new shape of a row"
    return None


class _Probe(PackedGroups):
    """Notes whose attention it stood in for."""

    def __init__(self, groups: list[Group]) -> None:
        super().__init__(groups)
        self.layers: list[int] = []

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        self.layers.append(layer)
        return super().attend(layer, query, key, value, scale)


def _try(model: Any) -> str | None:
    """Compare a packed row with its completions one by one, and with rows that differ in what must not matter."""
    device = next(model.parameters()).device
    size = model.get_input_embeddings().weight.shape[0]
    sequences = _sequences(size)
    ids, positions, groups = _pack(sequences)
    attention = _Probe(groups)

    def read(ids: Tensor, positions: Tensor) -> Tensor:
        with attending(model):
            inputs = {"input_ids": ids.to(device), "position_ids": positions.to(device), "attention": attention}
            return model(**inputs, use_cache=False).logits[0]

    packed = read(ids, positions)
    if sorted(attention.layers) != list(range(model.config.get_text_config().num_hidden_layers)):
        return "not every layer is one attention over all earlier tokens"
    if torch.equal(packed, read(ids, positions.flip(-1))):
        return "it does not look at the positions it is given"
    first = slice(groups[0].completions, groups[0].completions + groups[0].lengths[0])
    ids[0, first] = (ids[0, first] + 1) % size
    changed = read(ids, positions)
    if not _close(*(torch.cat([row[: first.start], row[first.stop :]]) for row in (changed, packed)), share=_LEAK):
        return "a completion changes the outputs of others in the same row"
    for (prompt, completions), group in zip(sequences, groups, strict=True):
        start = group.completions
        for completion in completions:
            alone = torch.tensor([prompt + completion], device=device)
            logits = model(input_ids=alone, attention_mask=torch.ones_like(alone), use_cache=False).logits[0]
            ours = torch.cat([packed[group.start : group.completions], packed[start : start + len(completion)]])
            if not _close(ours, logits):
                return "its outputs for a packed row differ from those of single ones"
            start += len(completion)
    return None


def _close(ours: Tensor, theirs: Tensor, *, share: float = 1.0) -> bool:
    """Whether logits [tokens, vocabulary] are equal at every token but for the rounding of their type, or a `share`."""
    tolerance = share * _ROUNDING.get(theirs.dtype, _HALF_ROUNDING)
    difference, size = (ours - theirs).double().norm(dim=-1), theirs.double().norm(dim=-1)
    return bool((difference <= tolerance * size).all())


def _sequences(size: int) -> list[tuple[list[int], list[list[int]]]]:
    """Prompts and completions of different tokens, the same every time."""
    step = next(number for number in (7, 11, 13, 1) if size % number)  # shares no factor with the size
    numbers = (number * step for number in range(1, 1000))  # 0 is often for padding, which transformers would warn of
    return [
        ([next(numbers) % size for _ in range(prompt)], [[next(numbers) % size for _ in range(n)] for n in ns])
        for prompt, ns in zip(_PROMPTS, _COMPLETIONS, strict=True)
    ]


def _pack(sequences: list[tuple[list[int], list[list[int]]]]) -> tuple[Tensor, Tensor, list[Group]]:
    ids: list[int] = []
    positions: list[int] = []
    groups = []
    for prompt, completions in sequences:
        groups.append(Group(len(ids), len(prompt), tuple(map(len, completions))))
        ids += prompt + [token for completion in completions for token in completion]
        positions += range(len(prompt))
        for completion in completions:
            positions += range(len(prompt), len(prompt) + len(completion))
    return torch.tensor([ids]), torch.tensor([positions]), groups

"""Measures how many bits a model needs for a byte of a text: its perplexity, in a unit that no tokenizer changes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch

from rlft.forgetting.passages import Texts
from rlft.head.selected import selected_logprobs
from rlft.policy import Policy
from rlft.policy.tokens import unknown_characters
from rlft.progress import Meter, Progress, silent
from rlft.types import Report

RANDOM = 8.0  # bits for a byte of 256 that are equally likely: a model that needs more has nothing to forget


@dataclass(frozen=True, slots=True)
class TextBits(Report):
    """Holds the bits per byte of each paragraph, by text, of the policy with this identity.

    `left_out` says of the other texts why they were not measured.
    """

    bits: dict[str, tuple[float, ...]]
    left_out: dict[str, str] = field(default_factory=dict)
    policy: str = ""
    seconds: float = 0.0

    @property
    def not_known(self) -> dict[str, str]:
        """Why nothing can be said of what training cost on a text: unmeasured, or no better than bytes at random."""
        lost = {name: bits for name, found in self.bits.items() if (bits := fmean(found)) >= RANDOM}
        return self.left_out | {
            name: f"before training the model needs {bits:.1f} bits for a byte, and bytes at random need {RANDOM:g}"
            for name, bits in lost.items()
        }


def measure_bits(policy: Policy, texts: Texts, *, progress: Progress = silent) -> TextBits:
    """Return the bits per byte that the policy needs for each paragraph of the texts, at temperature 1.

    A paragraph follows the tokenizer's start token, or its end token where it has no other, and nothing else; its
    tokens are given (teacher forcing). Its bits are minus the binary logarithm of the probability of all its tokens, in
    float32, over its length in UTF-8. One that is longer than the model's context is read in several parts. A text with
    characters that the tokenizer does not know is left out, as one token would stand for all of them.
    """
    started, meter = time.perf_counter(), Meter(progress, sum(map(len, texts.values())), "paragraphs")
    bits, left_out = dict[str, tuple[float, ...]](), dict[str, str]()
    policy.model.eval()
    for name, paragraphs in texts.items():
        if reason := _why_not(policy, paragraphs):
            left_out[name] = reason
            meter.add(len(paragraphs))
            continue
        found = list[float]()
        for paragraph in paragraphs:
            found.append(_bits_per_byte(policy, paragraph))
            meter.add()
        if all(map(math.isfinite, found)):
            bits[name] = tuple(found)
        else:
            left_out[name] = "the model gives probabilities that are not finite numbers"
    return TextBits(bits, left_out, policy.identity, time.perf_counter() - started)


def _why_not(policy: Policy, paragraphs: Sequence[str]) -> str:
    """Return why a text cannot be measured; empty if it can."""
    if _start(policy) is None:
        return "the tokenizer has neither a start nor an end token, so nothing predicts the first token"
    if unknown := sorted({each for part in paragraphs for each in unknown_characters(policy.tokenizer, part)}):
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        return f"the tokenizer has no token for {', '.join(map(repr, unknown[:5]))}{more}"
    return ""


def _start(policy: Policy) -> int | None:
    tokenizer: Any = policy.tokenizer
    return tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id


@torch.no_grad()
def _bits_per_byte(policy: Policy, text: str) -> float:
    """Return the bits per byte of a paragraph, which is not empty."""
    ids, start, split = policy.tokenizer(text, add_special_tokens=False).input_ids, _start(policy), policy.split
    room = max(1, (policy.context_length or len(ids) + 1) - 1)
    nats = 0.0
    for place in range(0, len(ids), room):
        row = torch.tensor([[start, *ids[place : place + room]]], device=policy.device)
        hidden = split.backbone(input_ids=row[:, :-1], use_cache=False)[0]
        found = selected_logprobs(hidden, split.head, row[0, 1:], 1.0, with_entropy=False)
        nats -= float(found.logprobs.double().sum())
    return nats / math.log(2) / len(text.encode())

"""Measures how many bits a model needs for a byte of a text: its perplexity, in a unit that no tokenizer changes.

The texts were written for this: no model knows them that has not read rlft's code. Two models are compared by the same
texts, to say what training has cost.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch

from rlft.evaluation.statistics import Range, bounds
from rlft.models import Policy
from rlft.models.head import selected_logprobs
from rlft.models.tokens import unknown_characters
from rlft.progress import Meter, Progress, silent
from rlft.types import Interval, Report

Texts = Mapping[str, tuple[str, ...]]  # paragraphs by the name of their text


def shipped_texts() -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of each shipped text, by its name, such as `english`."""
    files = sorted((Path(__file__).parent / "texts").glob("*.txt"))
    return {file.stem: tuple(file.read_text(encoding="utf-8").strip().split("\n\n")) for file in files}


def fingerprint_texts(texts: Texts) -> str:
    """Return 16 hexadecimal digits that differ if a text does."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


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


_NO_ENDS = Range(-1e9, 1e9)  # bits per byte have no upper end: the interval is Student's alone
Verdict = Literal["cost", "kept", "open"]


@dataclass(frozen=True, slots=True)
class Change:
    """Holds the bits per byte of a text `before` and `after` training, and their difference: above 0 is a cost.

    `verdict` is `cost` where the whole interval lies above the margin, `kept` where it lies below, and else `open`.
    `worst` is the difference on the paragraph on which training cost most.
    """

    before: float
    after: float
    difference: Interval
    verdict: Verdict
    worst: float


def compare_bits(after: TextBits, before: TextBits, margin: float) -> dict[str, Change]:
    """Return {text: change} for the texts that both models were measured on, and `before` predicts.

    `margin` is in bits per byte; what the config's default rests on stands in docs/guide/forgetting.md.
    The difference is paired by paragraph, as it is known for each of them how hard it is. The intervals are at
    1 - 0.05 / texts (Bonferroni), so that they hold together in 95 % where paragraphs change alike. `cost` is said
    wrongly of any text in at most 5 % also where few paragraphs cost much more than the others. `kept` is said of these
    paragraphs alone: a few do not show a cost that few have. Raises ValueError if a text does not have the same number
    of paragraphs, at least two.
    """
    names = [name for name in after.bits if name in before.bits and name not in before.not_known]
    return {name: _change(after.bits[name], before.bits[name], margin, 1 - 0.05 / len(names)) for name in names}


def _change(after: tuple[float, ...], before: tuple[float, ...], margin: float, confidence: float) -> Change:
    if len(after) != len(before) or len(after) < 2:
        raise ValueError(f"{len(after)} and {len(before)} paragraphs cannot be compared: measure the same two or more")
    differences = np.asarray(after) - np.asarray(before)
    low, high = bounds(differences, np.ones(len(after)), _NO_ENDS, imagined=(0.0,), confidence=confidence)
    count = len(after)
    interval = Interval(float(differences.mean()), float(low), float(high), count, count, float(count))
    verdict: Verdict = "cost" if interval.low > margin else "kept" if interval.high < margin else "open"
    return Change(fmean(before), fmean(after), interval, verdict, float(differences.max()))


def forgetting_sentences(changes: Mapping[str, Change], left_out: Mapping[str, str], margin: float) -> list[str]:
    """Return what training cost, a sentence for each text that is worse or open, and one for all others."""
    said = [
        f"Training cost {each.difference.mean:.3f} bits per byte ({each.difference.low:.3f} to "
        f"{each.difference.high:.3f}) on `{name}`, from {each.before:.3f} to {each.after:.3f}: more than the margin of "
        f"{margin:g}."
        for name, each in changes.items()
        if each.verdict == "cost"
    ]
    said += [
        f"Whether training cost more than {margin:g} bits per byte on `{name}` is open: {each.difference.mean:+.3f} "
        f"({each.difference.low:+.3f} to {each.difference.high:+.3f})."
        for name, each in changes.items()
        if each.verdict == "open"
    ]
    if kept := [(name, each) for name, each in changes.items() if each.verdict == "kept"]:
        said.append(
            f"On these paragraphs training cost less than the margin of {margin:g} bits per byte: {_named(kept)}."
        )
    reasons = dict[str, list[str]]()
    for name, reason in left_out.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    said += [f"Nothing is known about {', '.join(names)}: {reason}." for reason, names in reasons.items()]
    return said


def _named(kept: Sequence[tuple[str, Change]]) -> str:
    """Return the names of texts, each with what its worst paragraph has cost."""
    return ", ".join(f"`{name}` (worst paragraph {each.worst:+.3f})" for name, each in kept)

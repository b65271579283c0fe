"""Compares two models by the bits per byte that they need for the same texts, and says what training has cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from rlft.forgetting.bits import TextBits
from rlft.statistics import Range, bounds
from rlft.types import Interval

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


def comparison_sentences(first: str, second: str, changes: Mapping[str, Change], margin: float) -> list[str]:
    """Return how two models differ: a sentence for each text on which the second is worse, or may be, and one for all.

    `changes` are those of `compare_bits`, with the first model as `before`.
    """
    said = [
        f"{second} predicts `{name}` worse than {first}: {each.difference.mean:+.3f} bits per byte "
        f"({each.difference.low:+.3f} to {each.difference.high:+.3f}), more than the margin of {margin:g}."
        for name, each in changes.items()
        if each.verdict == "cost"
    ]
    said += [
        f"Whether {second} predicts `{name}` worse than {first} by more than {margin:g} bits per byte is open: "
        f"{each.difference.mean:+.3f} ({each.difference.low:+.3f} to {each.difference.high:+.3f})."
        for name, each in changes.items()
        if each.verdict == "open"
    ]
    if kept := [(name, each) for name, each in changes.items() if each.verdict == "kept"]:
        said.append(
            f"On these paragraphs {second} predicts no worse than {first}, within {margin:g} bits per byte: "
            f"{_named(kept)}."
        )
    return said


def _named(kept: Sequence[tuple[str, Change]]) -> str:
    """Return the names of texts, each with what its worst paragraph has cost."""
    return ", ".join(f"`{name}` (worst paragraph {each.worst:+.3f})" for name, each in kept)

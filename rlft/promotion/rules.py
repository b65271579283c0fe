"""The rules of a decision on promotion beside the improvement on the gate, and what each of them has said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rules:
    """What must hold beside the improvement on the gate. By default nothing.

    `suites` are the margins, in the metric, that the trained policy must be shown not to lose on each named suite.
    `slices` are {name: ids of its tasks} of the gate; in none of them may it be shown worse, and `slice_margin` is the
    loss that one must be able to see to say `no worse`. The mean length of its attempts may be at most
    `max_length_ratio` times that of the model in use. With `audit_required` the run's reward must have passed its
    audit.
    """

    suites: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    slice_margin: float = 0.05
    max_length_ratio: float | None = None
    audit_required: bool = False


NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says, in a sentence, and whether it keeps the policy from being promoted."""

    rule: str
    blocks: bool
    sentence: str

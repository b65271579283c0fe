"""What the gate decides, and what the registry makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from rlft.types import Interval, Report

Approval = Literal["", "pending", "approved", "rejected"]


class Known(BaseModel):
    """What a decision takes into account beside the scores.

    `look` and `spent` are those of a `rlft.gates.looks.Look`; `champion_knows` are ids of tasks that the champion was
    trained on, `None` if these are not known, `audit` says whether the reward has passed its audit, if it had one, and
    `monitor` names a monitor that was to stop the run.
    """

    look: int = 1
    spent: float = 1.0
    champion_knows: list[str] | None = None
    audit: bool | None = None
    monitor: str = ""


@dataclass(frozen=True, slots=True)
class Decision(Report):
    """Holds the outcome of the gate.

    `reasons` has a sentence for each comparison. `comparisons` maps `warm_start`, `base`, `champion` and `constant`
    (the best constant answer) to the difference (trained minus that policy) with its interval, for those that could
    be compared, at the level of one of `looks` looks at the gate. `look` is the number of this one. `rules` says of
    each kind of rule that was asked (`improvement`, `suites`, `slices`, `length`, `audit`, `answers`, `monitors`)
    whether it `passes` or `fails`.
    """

    promote: bool
    reasons: tuple[str, ...]
    comparisons: dict[str, Interval] = field(default_factory=dict)
    look: int = 1
    looks: int = 1
    rules: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredVersion(Report):
    """Names a version in the model registry, and the aliases that point to it now.

    `approval` says what a person has decided about it, if one is to decide. `withheld` is why it did not become the
    champion although the decision was to promote it; empty if that is not so.
    """

    name: str
    version: str
    model_id: str | None
    aliases: tuple[str, ...]
    approval: Approval = ""
    withheld: str = ""

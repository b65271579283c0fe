"""The report of a reward audit: what each kind of attempt earned, and what is wrong with the reward."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rlft.types import Report


@dataclass(frozen=True, slots=True)
class AttackScores:
    """Holds what one kind of attempt earned in total over `count` tasks, and the gold's mean over the same tasks.

    All are 0 where `count` is 0; `gold_mean` is 0 where none of the tasks has a gold.
    """

    mean: float
    minimum: float
    maximum: float
    count: int
    gold_mean: float


@dataclass(frozen=True, slots=True)
class AuditReport(Report):
    """Says what gold and attacks earned on `num_tasks` tasks, and in `findings` what is wrong with the reward.

    `attacks` maps each kind of attempt, `gold` first, to what it earned. `passed` is false when a finding means that
    training would teach the wrong thing; a finding that only says what could not be checked leaves it true.
    """

    attacks: dict[str, AttackScores]
    findings: tuple[str, ...]
    passed: bool
    num_tasks: int

    def table(self) -> list[dict[str, Any]]:
        """Return one row per kind of attempt: attack, mean, minimum, maximum, count, gold_mean."""
        return [{"attack": name, **asdict(scores)} for name, scores in self.attacks.items()]

    def text(self) -> str:
        """Return what every kind of attempt earned, if anything was scored, and the findings, as lines to be read."""
        rows = [f"{'text':<12} {'mean':>7} {'min':>7} {'max':>7} {'gold':>7} {'tasks':>6}"]
        rows += [
            f"{name:<12} {s.mean:7.3f} {s.minimum:7.3f} {s.maximum:7.3f} {s.gold_mean:7.3f} {s.count:6d}"
            for name, s in self.attacks.items()
        ]
        scored = any(s.count for s in self.attacks.values())
        return "\n".join([*(rows if scored else ()), *(f"- {finding}" for finding in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {**asdict(self), "findings": list(self.findings)}

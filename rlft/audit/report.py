"""The reports of a reward audit and of an environment's check: what was found, in sentences and in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rlft.contract.tools import ToolSpec
from rlft.outcome import WAY_OUT, as_text
from rlft.secrets import hide
from rlft.types import Report, Reward, Rollout

GOLD = "gold_completion"
"""Where a problem is that is about gold completions."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Says what is wrong with an environment: `where` (a method, mostly), `what`, and what to do about it (`fix`).

    The audit and the check decide by these; the sentences of their reports are made here, without the values of secret
    variables.
    """

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{hide(self.where)}: {self.finding}"

    @property
    def finding(self) -> str:
        """The sentence of the audit, whose findings are all about one reward: it leaves `where` out."""
        return hide(self.what + (f"{WAY_OUT}{self.fix}" if self.fix else ""))


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
        rows = [f"{'text':<12} {'mean':>7} {'lowest':>7} {'highest':>7} {'gold':>7} {'tasks':>6}"]
        rows += [
            f"{name:<12} {s.mean:7.3f} {s.minimum:7.3f} {s.maximum:7.3f} {s.gold_mean:7.3f} {s.count:6d}"
            for name, s in self.attacks.items()
        ]
        scored = any(s.count for s in self.attacks.values())
        return "\n".join([*(rows if scored else ()), *(f"- {finding}" for finding in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {**asdict(self), "findings": list(self.findings)}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Says what a check found. `problems` are sentences that name a place and a way out; without any all is well.

    `gold` is true if every task has a gold completion and it is full, `silence` if an empty answer earns nothing on
    every task, and `repeats` if the same conversation comes to the same messages and state, and the same rollout to the
    same score. All three are `None` where they could not be tried. `notes` say what could not be checked and is no
    problem. `rollout`, `reward` and `weights` (of its parts) are those of the first gold completion that was played.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    gold: bool | None = None
    silence: bool | None = None
    repeats: bool | None = None
    tools: tuple[ToolSpec, ...] = ()
    audit: AuditReport | None = None
    rollout: Rollout | None = None
    reward: Reward | None = None
    weights: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return gold, silence, repeats, tools, problems and the rollout (or `None`) as plain JSON values."""
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in self.tools]
        return {
            "gold": self.gold,
            "silence": self.silence,
            "repeats": self.repeats,
            "tools": tools,
            "problems": list(self.problems),
            "rollout": _rollout_json(self.rollout, self.reward),
        }


def _rollout_json(rollout: Rollout | None, reward: Reward | None) -> dict[str, Any] | None:
    if rollout is None:
        return None
    shown = {
        **{name: getattr(rollout, name) for name in ("task_id", "turns", "tool_calls", "tool_errors", "state")},
        "error": as_text(rollout.error),
    }
    scores = {} if reward is None else {"total": reward.total, "parts": reward.parts, "answer": reward.answer}
    return {**shown, **scores, "messages": list(rollout.messages)}

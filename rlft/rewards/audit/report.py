"""The reports of a reward audit and of an environment's check: what was found, in sentences and in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from rlft.environments.contract.marks import ToolSpec
from rlft.outcome import WAY_OUT
from rlft.texts.secrets import hide
from rlft.types import Judging, Report, Reward, Rollout

GOLD = "gold_completion"
"""Where a problem is that is about gold completions."""
GOLD_KIND = "gold"
"""The kind of attempt that is no attack."""
MOST_ROWS = 12
"""How many rows of a report's table are shown to a person."""


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

    All are 0 where `count` is 0; `gold_mean` is 0 where none of the tasks has a gold. `part` is the part of the reward
    that paid most of it, empty where nothing was paid.
    """

    mean: float
    minimum: float
    maximum: float
    count: int
    gold_mean: float
    part: str = ""

    @property
    def ratio(self) -> float | None:
        """The mean as a share of gold's; `None` where gold earns nothing."""
        return self.mean / self.gold_mean if self.gold_mean > 0 else None


@dataclass(frozen=True, slots=True)
class AuditReport(Report):
    """Says what gold and attacks earned on `num_tasks` tasks, and in `findings` what is wrong with the reward.

    `attacks` maps each kind of attempt, `gold` first, to what it earned. `passed` is false when a finding means that
    training would teach the wrong thing; a finding that only says what could not be checked leaves it true. `exploits`
    are the kinds of attack that fail it, `accepted` those that the config accepts. `attempts` were played in `seconds`,
    and `attacked` tasks were attacked by all kinds.
    `members` are the names of several environments: each has kinds of attempt of its own then, such as `NAME/gold`.
    `judging` is what judges were asked, `None` if none was.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"judging"}

    attacks: dict[str, AttackScores]
    findings: tuple[str, ...]
    passed: bool
    num_tasks: int
    exploits: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    attempts: int = 0
    attacked: int = 0
    seconds: float = field(default=0.0, compare=False)
    members: tuple[str, ...] = ()
    judging: Judging | None = field(default=None, compare=False)

    @property
    def _golds(self) -> tuple[str, ...]:
        """The kinds that are no attack."""
        return tuple(f"{name}/{GOLD_KIND}" for name in self.members) or (GOLD_KIND,)

    @property
    def compares(self) -> bool:
        """Whether attacks were compared with right answers: there is a gold, of each of several environments."""
        return all(kind in self.attacks and self.attacks[kind].count for kind in self._golds)

    @property
    def best(self) -> str:
        """The kind of attack that earns the largest share of gold, empty where none can be compared with it."""
        found = {
            kind: scores.ratio for kind, scores in self.attacks.items() if kind not in self._golds and scores.count
        }
        return max(found, key=lambda kind: found[kind] or 0.0, default="")

    def shown(self) -> list[dict[str, Any]]:
        """Return the rows of the table that a person reads: golds, and the attacks that earn most, the best first."""
        rows = [{"attack": name, **asdict(scores)} for name, scores in self.attacks.items()]
        golds = [row for row in rows if row["attack"] in self._golds]
        others = [row for row in rows if row["count"] and row not in golds]
        others.sort(key=lambda row: self.attacks[row["attack"]].ratio or row["mean"], reverse=True)
        return [*golds, *others][: MOST_ROWS - 1 + len(golds)]

    def text(self) -> str:
        """Return what gold and the best attacks earned, if anything was scored, and the findings, as lines."""
        rows = [f"{'text':<24} {'mean':>7} {'lowest':>7} {'highest':>7} {'gold':>7} {'tasks':>6}  paid most by"]
        rows += [
            f"{row['attack']:<24} {row['mean']:7.3f} {row['minimum']:7.3f} {row['maximum']:7.3f} "
            f"{row['gold_mean']:7.3f} {row['count']:6d}  {row['part']}".rstrip()
            for row in self.shown()
        ]
        kinds = sum(1 for kind, scores in self.attacks.items() if kind not in self._golds and scores.count)
        effort = f"{kinds} kinds of attack, {self.attempts} attempts in {self.seconds:.1f} s; {self.attacked} of "
        rows.append(f"{effort}{self.num_tasks} tasks were attacked by all kinds that apply.")
        if self.judging is not None:
            rows.append(f"A judge was asked {self.judging.calls} times for them.")
        scored = any(scores.count for scores in self.attacks.values())
        return "\n".join([*(rows if scored else ()), *(f"- {each}" for each in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values, with the best attack."""
        lists = {name: list(getattr(self, name)) for name in ("findings", "exploits", "accepted", "members")}
        found = {**asdict(self), **lists, "best": self.best}
        return {name: value for name, value in found.items() if value or name not in ("members", "judging")}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Says what a check found. `problems` are sentences that name a place and a way out; without any all is well.

    `gold` is true if every task has a gold completion and it is full, and `silence` if an empty answer earns nothing on
    every task. Both are `None` where they could not be tried. `notes` say what could not be checked and is no
    problem. `rollout`, `reward` and `weights` (of its parts) are those of the first gold completion that was played.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    gold: bool | None = None
    silence: bool | None = None
    tools: tuple[ToolSpec, ...] = ()
    audit: AuditReport | None = None
    rollout: Rollout | None = None
    reward: Reward | None = None
    weights: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return gold, silence, tools, problems and the rollout (or `None`) as plain JSON values."""
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in self.tools]
        shown = None
        if (rollout := self.rollout) is not None and (reward := self.reward) is not None:
            shown = {"task_id": rollout.task_id, "messages": list(rollout.messages), "state": rollout.state}
            shown |= {"total": reward.total, "parts": reward.parts, "answer": reward.answer}
        return {
            "gold": self.gold,
            "silence": self.silence,
            "tools": tools,
            "problems": list(self.problems),
            "rollout": shown,
        }

"""A run as lists of runs show it: all attempts at it, what became of it, and what it has cost and led to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mlops.ids import EVALUATE, PIPELINE, RESCORE, RETRAIN
from mlops.summary.summary import Summary

_KINDS = {PIPELINE: "training", EVALUATE: "evaluation", RESCORE: RESCORE, RETRAIN: RETRAIN}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a run: its id as ZenML writes it, its name, its status and when it began and ended, in UTC."""

    id: str
    name: str
    status: str
    began: datetime
    seconds: float
    summary: Summary | None
    pipeline: str = PIPELINE

    @property
    def key(self) -> str:
        """The id as ZenML's database has it."""
        return self.id.replace("-", "")


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with all attempts at it, newest first, and what it has cost and led to.

    `status` is that of its summary, or `running`, `failed`, `killed` or `finished`; an evaluation or a replay that was
    cut short is `interrupted`, as a run is that a signal has ended, and `again` is the command that goes on with it,
    where it is known. `version` is the
    registered one as (name, version). `aliases` are those of all its versions, and `named` says of each which version
    it names. `marks` says what else the registry holds about its version: `was champion`, or `waits for approval`.
    `sweep` is the name of the sweep that it is one of, empty without one. `by` is who began it, as ZenML's server knows
    them; empty in a home, where that is its owner.
    """

    name: str
    attempts: tuple[Attempt, ...]
    status: str
    tokens: int | None = None
    gpu_hours: float | None = None
    mlflow_runs: tuple[str, ...] = ()
    version: tuple[str, str] | None = None
    aliases: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    sweep: str = ""
    again: str = ""
    by: str = ""

    @property
    def began(self) -> datetime:
        """When its first attempt began."""
        return self.attempts[-1].began

    @property
    def seconds(self) -> float:
        """Wall seconds of all attempts."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def summary(self) -> Summary | None:
        """The summary of the newest attempt that has left one."""
        return next((attempt.summary for attempt in self.attempts if attempt.summary), None)

    @property
    def is_resumable(self) -> bool:
        """Whether `rlft resume` would go on with it, and not fail again by the settings that it keeps."""
        last = self.attempts[0].summary
        is_hopeless = last is not None and last.needs_new_settings
        return self.status in ("failed", "killed", "interrupted") and self.kind == "training" and not is_hopeless

    @property
    def kind(self) -> str:
        """What it is: `training`, an `evaluation` of models, or a replay of another run, a `rescore` or `retrain`."""
        return _KINDS[self.attempts[0].pipeline]

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft runs --json` prints it."""
        difference = self.summary.difference if self.summary else None
        return {
            "name": self.name,
            "kind": self.kind,
            "sweep": self.sweep or None,
            "began": self.began.isoformat(),
            "by": self.by or None,
            "status": self.status,
            "again": self.again or None,
            "attempts": [attempt.id for attempt in self.attempts],
            "difference": difference and difference.model_dump(),
            "seconds": round(self.seconds, 1),
            "gpu_hours": self.gpu_hours,
            "sampled_tokens": self.tokens,
            "version": self.version and {"name": self.version[0], "version": self.version[1]},
            "aliases": list(self.aliases),
            "marks": list(self.marks),
        }


def find_listed(runs: list[ListedRun], asked: str) -> list[ListedRun]:
    """Return the runs that a name, an id of an attempt, or the beginning of either means; an exact name comes first."""
    exact = [
        run for run in runs if asked in (run.name, *(name for a in run.attempts for name in (a.id, a.key, a.name)))
    ]
    begins = [run for run in runs if any(n.startswith(asked) for a in run.attempts for n in (run.name, a.id, a.name))]
    return exact or begins

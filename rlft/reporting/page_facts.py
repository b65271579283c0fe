"""What is known of a run, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlft.blocks import Block
from rlft.types import EvaluationReport, TrainReport


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of the trained policy: the last message of the prompt, its last answer, and what that earned.

    `right` is the right answer of the task, if it has one.
    """

    task_id: str
    prompt: str
    answer: str
    total: float
    parts: Mapping[str, float | None]
    stop_reason: str
    right: str | None = None


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """What is known of a run.

    `about` says in sentences what it is of, for somebody who has not seen it: model, environment, tasks and date.
    `verdict` is what came of it, `rounds` are its reports, and `validations` those by the number of rounds before.
    `metric` chose the best round, which is `best_round`. `ledger` and `seconds` count rollouts by their fate, and wall
    time by stage. `best` and `worst` are attempts at `test`. `audit` has the lines of the reward's audit, `caveats`
    what is missing here, `lineage` names with their values, `config` is YAML, and `commands` do the run again.
    `code` names the versions that made it, if they are noted.
    """

    name: str
    verdict: Sequence[Block]
    metric: str
    rounds: Sequence[TrainReport] = ()
    validations: Mapping[int, EvaluationReport] = field(default_factory=dict)
    best_round: int | None = None
    ledger: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    best: Sequence[Attempt] = ()
    worst: Sequence[Attempt] = ()
    audit: Sequence[str] = ()
    lineage: Sequence[tuple[str, str]] = ()
    config: str = ""
    commands: Sequence[str] = ()
    about: Sequence[str] = ()
    code: str = ""

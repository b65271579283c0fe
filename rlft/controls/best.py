"""The best validated checkpoint of a control, and the report on all checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rlft.comparison import guarded_mean, is_better
from rlft.controls.judging import Judge
from rlft.policy import Policy
from rlft.types import EvaluationReport, Judging, Report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Reports a checkpoint: its learning rate, the steps to it, and the mean in validation, errors counted as lowest.

    `validation` is `None` where nothing could be scored, or where the numbers of training went wrong. `form` says what
    was imitated: of SFT whose answers, of rejection sampling which attempts; this also says how many `rounds` it had
    done.
    """

    learning_rate: float
    steps: int
    validation: float | None
    rounds: int = 0
    form: str = ""


@dataclass(frozen=True, slots=True)
class ControlReport(Report):
    """Reports a control: FLOPs `spent` of its `budget`, wall seconds, and the checkpoints, of which `chosen` is best.

    `demonstrations` is how many answers it imitated; of rejection sampling, how many of its `attempts`, trials
    included. `losses` are those of each step of the training that the chosen checkpoint is from, in nats per imitated
    token. SFT also says whose `answers` the chosen checkpoint imitates (`rlft.sft.demonstrations.Answers`), and how
    many tokens these have after their prompts, in the mean. `judging` is what judges were asked, `None` if none was.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"judging"}

    budget: float
    spent: float
    seconds: float
    demonstrations: int
    metric: str
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    losses: tuple[float, ...] = ()
    attempts: int = 0
    answers: str = ""
    answer_tokens: float = 0.0
    judging: Judging | None = None


class Best:
    """Validates checkpoints of `policy`, and keeps the weights of the best one; at first those that it has now."""

    def __init__(self, policy: Policy, judge: Judge) -> None:
        self._policy, self._judge = policy, judge
        self._start = self._weights = _copy(policy)
        self._reports: list[tuple[Candidate, EvaluationReport]] = []
        self.candidates: list[Candidate] = []
        self.chosen: Candidate | None = None
        self.losses: tuple[float, ...] = ()

    def validate(self, learning_rate: float, losses: Sequence[float], *, rounds: int = 0, form: str = "") -> float:
        """Validate the policy after one step for each of `losses`; return the FLOPs that this took."""
        report, flops = self._judge.validate(self._policy)
        metric = self._judge.metric
        found = Candidate(learning_rate, len(losses), guarded_mean(report, metric), rounds, form)
        self.candidates.append(found)
        where = f"{form}, round {rounds}" if rounds else form
        reached = "without a score" if found.validation is None else f"{found.validation:.3f}"
        logger.info(
            "control validated (%s, learning rate %g, step %d): %s %s",
            where,
            learning_rate,
            found.steps,
            metric,
            reached,
        )
        self._reports.append((found, report))
        if self.leading() is found:
            self._weights, self.chosen, self.losses = _copy(self._policy), found, tuple(losses)
        return flops

    def leading(self, form: str | None = None) -> Candidate | None:
        """Return the best checkpoint so far, of this form if one is given; the first of several equally good ones."""
        best: tuple[Candidate, EvaluationReport] | None = None
        for found, report in self._reports:
            if form in (None, found.form) and is_better(report, best and best[1], self._judge.metric):
                best = found, report
        return best and best[0]

    def note_failure(self, candidate: Candidate) -> None:
        """Note a checkpoint that could not be validated, since its numbers went wrong."""
        self.candidates.append(candidate)

    def restart(self) -> None:
        """Give the policy the weights that it had at first."""
        _restore(self._policy, self._start)

    def restore(self) -> None:
        """Give the policy the weights of the best checkpoint."""
        _restore(self._policy, self._weights)


def _copy(policy: Policy) -> dict[str, Tensor]:
    """Return the trained weights; in main memory, since that of a GPU may hold no further copy."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in policy.trainable().items()}


@torch.no_grad()
def _restore(policy: Policy, weights: dict[str, Tensor]) -> None:
    for name, parameter in policy.trainable().items():
        parameter.copy_(weights[name])
    policy.optimizer = None
    policy.note_change(update=0)

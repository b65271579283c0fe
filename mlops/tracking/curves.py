"""Logs the curves of supervised training, and how a control was made: its report, what it spent, and its losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlops.tracking.run import Tracker
from rlft.controls.best import ControlReport
from rlft.controls.few_shot import PromptReport
from rlft.sft.state import SftState
from rlft.sft.training import SftReport

_SECTIONS = {"warm_start": "sft"}


def log_training(tracker: Tracker, stage: str, training: SftState | SftReport) -> None:
    """Log loss, learning rate and gradient norm of every step so far, of training that goes on or of its report.

    `stage` is `warm_start`. Steps count from 1.
    """
    section = _SECTIONS[stage]
    curves = {
        f"{section}/loss": training.losses,
        f"{section}/learning_rate": training.learning_rates,
        f"{section}/grad_norm": training.grad_norms,
    }
    tracker.log_curves(curves)


def log_control(tracker: Tracker, name: str, report: ControlReport) -> None:
    """Log the report of the control of this name, and what it spent of its budget."""
    _log(tracker, name, report)
    tracker.log_curves({f"{name}_control/loss": list(report.losses)})


def log_prompts(tracker: Tracker, name: str, report: PromptReport) -> None:
    """Log the report of the prompted control of this name, and what it spent: FLOPs of its budget, or tokens."""
    _log(tracker, name, report)
    tokens = {"prompt_tokens": report.prompt_tokens, "completion_tokens": report.completion_tokens}
    tracker.log_metrics(_known(name, tokens), step=0)


def _log(tracker: Tracker, name: str, report: ControlReport | PromptReport) -> None:
    tracker.log_json(f"controls/{name}.json", dataclasses.asdict(report))
    spent = {"flops": report.spent, "budget_flops": report.budget, "seconds": report.seconds}
    tracker.log_metrics(_known(name, spent), step=0)


def _known(name: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that are known, by the names of the control's metrics."""
    return {f"{name}_control/{key}": float(value) for key, value in values.items() if value is not None}

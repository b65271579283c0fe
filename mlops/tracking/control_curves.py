"""Logs how a control was made: its report as JSON, what it spent, and the curve of its loss if it was trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlops.tracking.run import Tracker
from rlft.controls.best import ControlReport
from rlft.controls.few_shot import PromptReport


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

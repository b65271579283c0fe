"""Logs how a control was trained: its report as JSON, and the curve of its loss."""

from __future__ import annotations

import dataclasses

from mlops.tracking.run import Tracker
from rlft.controls.best import ControlReport


def log_control(tracker: Tracker, name: str, report: ControlReport) -> None:
    """Log the report of the control of this name, and what it spent of its budget."""
    tracker.log_json(f"controls/{name}.json", dataclasses.asdict(report))
    tracker.log_curves({f"{name}_control/loss": list(report.losses)})
    spent = {"flops": report.spent, "budget_flops": report.budget, "seconds": report.seconds}
    tracker.log_metrics({f"{name}_control/{key}": value for key, value in spent.items()}, step=0)

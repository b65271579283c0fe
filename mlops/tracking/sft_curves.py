"""Logs the curves of the warm start's supervised fine-tuning: `sft/*`."""

from __future__ import annotations

from mlops.tracking.run import Tracker
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

"""Checks that a loss of the user's own can be imported and trained with."""

from __future__ import annotations

from rlft.config import TrainingConfig
from rlft.contract.importing import check_syntax


def check_loss_file(settings: TrainingConfig) -> None:
    """Parse the file that `training.loss_type` names, if it names one. Raises EnvironmentSetupError."""
    if settings.shipped_loss() is None:
        check_syntax(settings.loss_type, "training.loss_type", "Class")


def check_loss(settings: TrainingConfig) -> None:
    """Import a loss of the user's own and call it on a few tokens.

    Raises ConfigError and EnvironmentSetupError as `chosen_loss` and `try_loss` do.
    """
    if settings.shipped_loss() is None:
        from rlft.training.chosen_loss import (
            chosen_loss,
            try_loss,  # imports torch
        )

        try_loss(chosen_loss(settings))

"""Checks that a loss of the user's own can be imported and trained with, and that an algorithm has its files."""

from __future__ import annotations

from rlft.config import TrainingConfig
from rlft.config.section import is_import_path
from rlft.environments.contract.importing import check_syntax
from rlft.training.algorithms import chosen_algorithm


def check_files(settings: TrainingConfig) -> None:
    """Parse the file that `training.loss_type` names, and read the first rows of an algorithm's, if there are such.

    Raises EnvironmentSetupError and TaskError.
    """
    chosen_algorithm(settings).check_files()
    if is_import_path(settings.loss_type):
        check_syntax(settings.loss_type, "training.loss_type", "Class")


def check_loss(settings: TrainingConfig) -> None:
    """Import a loss of the user's own and call it on a few tokens.

    Raises ConfigError and EnvironmentSetupError as `chosen_loss` and `try_loss` do.
    """
    if is_import_path(settings.loss_type):
        from rlft.training.chosen_loss import (
            chosen_loss,
            try_loss,  # imports torch
        )

        try_loss(chosen_loss(settings))

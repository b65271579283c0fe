"""Whether a loss of the user's own can be trained with."""

from __future__ import annotations

from rlft.config import TrainingConfig


def check_loss(settings: TrainingConfig) -> None:
    """Import it and call it on a few tokens. Raises ConfigError and EnvironmentSetupError as `chosen_loss` does."""
    if settings.shipped_loss() is None:
        from rlft.training.chosen_loss import chosen_loss, try_loss  # torch: seconds that only such a run pays here

        try_loss(chosen_loss(settings))

"""The losses that are shipped, by name; a file holds one loss, or all those with the same objective.

Every class with a `name` in a file of this room can be chosen by `training.loss_type`, its fields are settings of
`training`, and docs/guide/settings.md lists it. The files import torch for type checkers only, because the config
imports them, and a config is checked without torch.
"""

from rlft.training.losses.base import Divisor, Loss
from rlft.types.declared import shipped

__all__ = ["LOSSES", "Divisor", "Loss"]

LOSSES: dict[str, type[Loss]] = shipped(__name__, Loss)

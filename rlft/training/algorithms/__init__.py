"""The algorithms that are shipped, by name: each is one class in one file, with its settings, defaults and paper.

Every class with a `name` in a file of this room can be chosen by `training.algorithm`; its fields are settings of
`training`, and docs/guide/settings.md lists it. The config imports the files, and is checked without torch: so they
import what trains where they use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlft.training.algorithms.base import Algorithm
from rlft.types.declared import shipped

if TYPE_CHECKING:
    from rlft.config import TrainingConfig

__all__ = ["ALGORITHMS", "Algorithm", "chosen_algorithm", "learnt_by"]

ALGORITHMS: dict[str, type[Algorithm]] = shipped(__name__, Algorithm)


def chosen_algorithm(settings: TrainingConfig) -> Algorithm:
    """Return the algorithm that `training.algorithm` names, with its settings."""
    kind = ALGORITHMS[settings.algorithm]
    return kind(**{name: getattr(settings, name) for name in kind.model_fields})


def learnt_by(config: Mapping[str, Any]) -> str:
    """Return what reports call the algorithm of a stored config, which is GRPO's where it names none."""
    return ALGORITHMS[config.get("training", {}).get("algorithm", "grpo")].title

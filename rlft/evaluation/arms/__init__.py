"""The arms that a trained policy is compared with, by name: each is one class in one file, with its settings.

Every class with a `name` in a file of this room can stand in the list `controls` of a config, unless it is made in
every run. The config, the pipeline, the estimate, results and docs/guide/settings.md find it here. A config is checked
without torch: so the files import what searches where they use it.
"""

from __future__ import annotations

from rlft.evaluation.arms.base import Arm, PolicyArm, PromptArm
from rlft.types.declared import shipped

__all__ = ["ARMS", "Arm", "PolicyArm", "PromptArm"]

ARMS: dict[str, type[Arm]] = shipped(__name__, Arm)

"""Puts runs side by side: what differs between them, which model is better, and whether a setting is.

- `configs`: settings that differ, and runs that differ in nothing but their seed
- `pairs`: two models of two runs, task by task
- `seeds`: two settings by several runs each, and how many seeds would tell
- `tasks`: tasks that one model solves and another does not
"""

from rlft.contrasts.configs import differing, same_setting
from rlft.contrasts.pairs import Pair, compare_pairs
from rlft.contrasts.seeds import SettingPair, compare_settings, seeds_needed
from rlft.contrasts.tasks import solved_by_one

__all__ = [
    "Pair",
    "SettingPair",
    "compare_pairs",
    "compare_settings",
    "differing",
    "same_setting",
    "seeds_needed",
    "solved_by_one",
]

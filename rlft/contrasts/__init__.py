"""Puts runs side by side: what differs between them, which model is better, and whether a setting is.

- `configs`: settings that differ, and runs that differ in nothing but their seed
- `pairs`: two models of two runs, task by task
- `seed_power`: how many seeds would find a difference, over seeds and over tasks
- `seeds`: two settings by several runs each
- `tasks`: tasks that one model solves and another does not
"""

from rlft.contrasts.configs import differing, same_setting
from rlft.contrasts.pairs import Pair, compare_pairs
from rlft.contrasts.seed_power import seeds_needed
from rlft.contrasts.seeds import SettingPair, compare_settings
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

"""Puts runs side by side: what differs between them, which model is better, and whether a setting is.

- `configs`: settings that differ, runs that differ in nothing but their seed, and reruns of one seed
- `matching`: the tasks that several runs share, whatever their ids
- `pairs`: two models of two runs, task by task
- `seed_power`: how many seeds would find a difference, over seeds and over tasks
- `seeds`: two settings by several runs each
- `tasks`: tasks that one model solves and another does not
"""

from rlft.evaluation.contrasts.configs import by_seed, differing, same_setting
from rlft.evaluation.contrasts.matching import Asked, match, renamed, why_none
from rlft.evaluation.contrasts.pairs import Pair, compare_pairs
from rlft.evaluation.contrasts.seed_power import seeds_needed
from rlft.evaluation.contrasts.seeds import SettingPair, compare_settings, is_too_few
from rlft.evaluation.contrasts.tasks import solved_by_one

__all__ = [
    "Asked",
    "Pair",
    "SettingPair",
    "by_seed",
    "compare_pairs",
    "compare_settings",
    "differing",
    "is_too_few",
    "match",
    "renamed",
    "same_setting",
    "seeds_needed",
    "solved_by_one",
    "why_none",
]

"""Contamination: finds evaluation tasks whose text is in the train tasks, or in the demonstrations.

- `overlap`: which tasks are found, where, and by which words
- `scores`: scores with and without the tasks that are found, by slice, and what to say of them

The definition, and what it follows, stand in docs/guide/contamination.md.
"""

from rlft.tasks.contamination.overlap import ContaminationReport, Overlap, compare_splits, find_contamination
from rlft.tasks.contamination.scores import CleanScore, clean_score, contamination_sentence

__all__ = [
    "CleanScore",
    "ContaminationReport",
    "Overlap",
    "clean_score",
    "compare_splits",
    "contamination_sentence",
    "find_contamination",
]

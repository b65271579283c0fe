"""Forgetting: what training cost the model elsewhere, measured on held-out texts that have nothing to do with the task.

- `bits`: how many bits a model needs for a byte of each paragraph
"""

from rlft.evaluation.forgetting.bits import (
    Change,
    TextBits,
    compare_bits,
    comparison_sentences,
    fingerprint_texts,
    forgetting_sentences,
    measure_bits,
    shipped_texts,
)

__all__ = [
    "Change",
    "TextBits",
    "compare_bits",
    "comparison_sentences",
    "fingerprint_texts",
    "forgetting_sentences",
    "measure_bits",
    "shipped_texts",
]

"""Forgetting: what training cost the model elsewhere, measured on held-out texts that have nothing to do with the task.

- `passages`: the texts that are shipped, in `texts/`: plain English, code, dialogue, arithmetic, German and Spanish
- `bits`: how many bits a model needs for a byte of each paragraph
- `changes`: two models compared by it, and what to say of that
"""

from rlft.forgetting.bits import TextBits, measure_bits
from rlft.forgetting.changes import (
    Change,
    compare_bits,
    comparison_sentences,
    forgetting_sentences,
)
from rlft.forgetting.passages import fingerprint_texts, shipped_texts

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

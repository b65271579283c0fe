"""How alike an attempt is to what is right, where both can be compared."""

from __future__ import annotations

from rlft.errors import TaskError
from rlft.graders.similarity import LONGEST, Measure, similarity
from rlft.specification.attempt import Unmeasured


def likeness(measure: Measure, text: str, gold: str, template: str) -> float:
    """Return how alike two texts are, from 0 to 1 (`rlft.graders.similarity`). `template` is that of the gold.

    Raises `Unmeasured` for a text that is too long to be compared, and TaskError for such a gold.
    """
    if len(gold) > LONGEST and "sample." not in template:
        raise TaskError(
            f"{template} has {len(gold):,} characters, and at most {LONGEST:,} are compared",
            where="reward.spec",
            fix="compare with a shorter text, or let `applies` say which tasks have one",
        )
    found = similarity(measure, text, gold)
    if found is None:
        raise Unmeasured(f"it is longer than {LONGEST:,} characters")
    return found

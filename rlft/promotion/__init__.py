"""Decides from evaluation reports whether a trained policy becomes the champion, and says why.

- `decide`: the decision
- `decision`: what it holds, and what the registry makes of it
- `sentences`: a comparison with a rival in words
"""

from rlft.promotion.decide import decide_promotion
from rlft.promotion.decision import Approval, Decision, RegisteredVersion

__all__ = ["Approval", "Decision", "RegisteredVersion", "decide_promotion"]

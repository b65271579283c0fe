"""Decides from evaluation reports whether a trained policy becomes the champion, and says why.

- `decide`: the decision
- `decision`: what it holds, and what the registry makes of it
- `rules`: what must hold beside the improvement, and what each rule has said
- `improvement`, `suites`, `slices`, `costs`: the rules
- `sentences`: a comparison with a rival in words
"""

from rlft.promotion.decide import decide_promotion
from rlft.promotion.decision import Approval, Decision, Known, RegisteredVersion
from rlft.promotion.rules import Rules

__all__ = ["Approval", "Decision", "Known", "RegisteredVersion", "Rules", "decide_promotion"]

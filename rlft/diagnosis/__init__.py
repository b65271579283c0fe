"""Why the reward of a run does not rise: checks of its curves, each of which may find a cause.

- `history`: the curves of a run, as its stored reports give them
- `finding`: a cause, with the sentence and the setting for it
- `evidence`: whether what a curve shows is more than chance
- `data`: causes in what is sampled and scored
- `parts`: causes in the parts of the reward
- `learning`: causes in how the policy is trained
- `unseen`: causes that show on validation
- `standstill`: why a reward that has risen stands still
- `diagnose`: asks all of them, the likeliest cause first

The causes, their thresholds and what these rest on stand in docs/guide/diagnosis.md.
"""

from rlft.diagnosis.diagnose import CHECKS, able_checks, diagnose
from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History

__all__ = ["CHECKS", "Finding", "History", "able_checks", "diagnose"]

"""Why the reward of a run does not rise: checks of its curves, each of which may find a cause.

- `history`: what a check reads and answers, and whether a curve shows more than chance
- `data`, `learning`, `unseen`: causes in what is sampled and scored, in how the policy is trained, and on validation
- `diagnose`: asks all of them, the likeliest cause first

The causes, their thresholds and what these rest on stand in docs/guide/diagnosis.md.
"""

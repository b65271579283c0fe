"""What the curves of a run show: why its reward does not rise, and whether it rises for what is not wanted.

- `history`: what a check reads and answers, and whether a curve shows more than chance
- `data`, `learning`, `unseen`: causes in what is sampled and scored, in how the policy is trained, and on validation
- `hacking`: signs that what is paid is not what is wanted
- `table`: all of them, and when each is asked

The causes, their thresholds and what these rest on stand in docs/guide/diagnosis.md and docs/guide/monitors.md.
"""

"""What the curves of a run show: why its reward does not rise, and whether it rises for what is not wanted.

- `history`: what a check reads and answers, and whether a curve shows more than chance
- `causes`: why a reward does not rise
- `monitors`: signs that what is paid is not what is wanted, and the table of all checks, with when each is asked

The causes, their thresholds and what these rest on stand in docs/guide/diagnosis.md and docs/guide/monitors.md.
"""

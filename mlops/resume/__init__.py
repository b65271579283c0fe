"""What is asked before a run goes on.

- `changed_code`: whether its own code is what it began with
- `readable`: whether this rlft reads what the run has stored
- `redo`: how the results of a step are made again
"""

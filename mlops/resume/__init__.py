"""What is asked before a run goes on.

- `changed_code`: whether its own code is what it began with
- `redo`: how the results of a step are made again
"""

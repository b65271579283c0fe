"""What is asked before a run goes on.

- `changed_code`: whether its own code is what it began with
- `damage`: which results are damaged, and what is made again then
"""

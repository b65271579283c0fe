"""Tells which tasks and gates are the same, and how strict each of several decisions by one gate must be.

- `identity`: knows a task again by what its row asks, and a gate by its tasks
- `looks`: splits the chance of a false promotion over the decisions by one gate
"""

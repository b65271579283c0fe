"""Controls: what something simpler than reinforcement learning reaches on the same tasks.

- `constant`: the same answer to every task
"""

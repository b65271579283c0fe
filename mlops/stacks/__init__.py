"""ZenML's stacks: `file` reads one that a user describes, `stack` makes and finds them.

`image` looks for files that a stack's image would not hold; `sandbox` and `process` run a model's code in its sandbox.
"""

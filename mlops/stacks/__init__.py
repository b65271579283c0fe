"""ZenML's stacks: `file` reads one that a user describes, `stack` makes and finds them, `sandbox` and `process` run a
model's code in the sandbox of one.
"""

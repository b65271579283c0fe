"""ZenML's stacks: `file` reads one that a user describes, `stack` makes and finds them,
`team` asks whether what a shared one needs is there.
`readers` keeps ZenML from reading artifacts with classes that are none of rlft's.

`image` is how a stack's image is made, and what it will not hold; `sandbox` and `process` run a model's code in its
sandbox.
"""

"""ZenML's stacks: `file` reads one that a user describes, `in_the_clear` refuses secrets in it, `stack` makes and
finds them, `team` asks whether what a shared one needs is there, and `away` tells from an error that ZenML's server has
failed.

`image` is how the image of a stack's pods is made, of the `requirements` of a run. `archive` is which files the pods
get, and `lacking` what a run `needs` and they will not have, by what its code `imports`; `variables` says that of
variables.
`manifests`, with `ray_manifest`, is what a stack asks of a cluster in Kubernetes, and `pods`, by `pod_rules`,
whether that takes it. `sandbox` and `process` run a model's code in the stack's sandbox.
"""

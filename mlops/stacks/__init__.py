"""ZenML's stacks: where steps run and where their artifacts lie.

- `stack`: finds one, and connects this process to it
- `file`: reads one that a user describes, refuses secrets in it, checks it, and registers it
- `kubernetes`: the pods that a file describes, and whether Kubernetes' API takes them
- `image`: how the image of the pods is made; which files that a config names they would lack
"""

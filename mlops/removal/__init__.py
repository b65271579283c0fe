"""How old runs go: `plan` says what would go and why something stays, `removing` carries it out.

Both ask ZenML and MLflow by their clients, which `mlops.stacks.stack.connect` must have connected.
"""

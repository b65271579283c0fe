"""How old runs go.

- `plan`: what would go, and why something stays
- `removing`: carrying it out, so that a kill in the middle leaves nothing half removed
- `rows`: the rows of ZenML's and MLflow's databases
- `note`: what is still to be done, for whoever comes after a kill
"""

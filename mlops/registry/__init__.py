"""MLflow's model registry.

- `logged_model`: a policy as MLflow stores it, and whether its files are still those that were registered
- `served_policy`, `served_input`: the program that answers with it; what it can be asked
- `versions`: registering a policy
- `decisions`: promoting, approving, rejecting a version, and taking the champion back
- `changes`, `history`: what is noted of decisions; who was champion when and why
- `named`: the model or version that a person names, and the champion
- `gates`, `noted_tasks`: how often a gate was looked at; in which splits a run had its tasks
- `names`: words that they share with the runs; `client`: MLflow's client, which keeps records off its pages
"""

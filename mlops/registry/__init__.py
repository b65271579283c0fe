"""MLflow's model registry.

- `logged_model`: a policy as MLflow stores it, and whether its files are still those that were registered
- `served_policy`, `served_input`: the program that answers with it; what it can be asked
- `versions`: registering a policy
- `decisions`: promoting, approving, rejecting a version, and taking the champion back; who was champion when and why
- `gates`: how often a gate was looked at; in which splits a run had its tasks
- `names`: words that they share with the runs, and what the notes of decisions say
- `client`: MLflow's client, which keeps records off its pages; the model or version that a person names
"""

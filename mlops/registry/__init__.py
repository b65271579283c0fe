"""MLflow's model registry.

- `logged_model`: a policy as MLflow stores it
- `served_policy`, `served_input`, `served_prompt`: the program that answers with it, what it can be asked, its prompts
- `versions`, `champion`: registering a policy; asking for the version in use
- `decisions`: promoting, approving, rejecting a version, and taking the champion back
- `changes`, `history`: what is noted of decisions; who was champion when and why
- `named`: the model or version that a person names
- `gates`, `noted_tasks`: how often a gate was looked at; in which splits a run had its tasks
- `names`: words that they share with the runs; `client`: MLflow's client, which keeps records off its pages
- `stored`: whether the files of a version hold what was registered
"""

"""Tries and attacks an environment before anything is trained on its reward.

- `rewards`: plays gold answers and attacks without a model and scores them (`audit_reward`), also as a config says
- `attacks`: the kinds of attack, a table for each family
- `attempts`: asks the environment for golds and attacks of its own, chooses attempts, and plays and scores them
- `findings`, `report`: what fails a reward, what it is warned of, and the report
- `matching`: finds attempts in training that are an attack which is known here
- `environment`: the check of an environment for its author (`check_environment`)
"""

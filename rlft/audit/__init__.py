"""Tries and attacks an environment before anything is trained on its reward.

- `rewards`: plays gold answers and attacks without a model and scores them (`audit_reward`)
- `by_settings`: the same as a config says, of several environments one by one
- `attacks`: the kinds of attack, one family a file
- `golds`, `attempts`: what the environment is asked for, and the attempts that are chosen, played and scored
- `order`: asks the rewards of an environment in the opposite order
- `equivalence`: golds that are right at each other's tasks
- `findings`, `verdict`, `warnings`, `report`: what the scores say about the reward, what fails it, and the report
- `environment`: the check of an environment for its author (`check_environment`)
- `matching`: finds attempts in training that are an attack which is known here
- `trials`, `trial_problems`: the attempts of this check, and what is wrong by them
"""

"""Tries and attacks an environment before anything is trained on its reward.

- `rewards`: plays gold answers and attacks without a model and scores them (`audit_reward`)
- `attacks`, `findings`, `report`: the attacks' scripts, what their scores say about the reward, and the report
- `environment`: the check of an environment for its author (`check_environment`)
- `trials`, `trial_problems`: the attempts of this check, and what is wrong by them
"""

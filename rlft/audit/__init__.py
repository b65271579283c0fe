"""An environment is tried and attacked before anything is trained on its reward.

- `rewards`, `attacks`: whether answers that are none are paid (`audit_rewards`), and their texts
- `environment`, `trials`: what else its author wants to know (`check_environment`), and the attempts made for it
"""

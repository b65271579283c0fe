"""Conversations between a policy and an environment, turn by turn.

- `preparing`: makes a policy ready for an environment's conversations, and says what these show it before a task
- `dialogue`: an environment with its tools and limits, and one conversation with it, without tokens
- `opening`: conversations whose environment runs in a worker process, and the choice of these or others
- `attempt`: an attempt at a task, the solved tasks that a model reads before it, and the rollout in progress
- `rollout`: collects the rollouts of many tasks, in conversations side by side whose turns an engine samples
- `asked`: conversations whose turns a model behind an address gives, without tokens, and a first answer of it
- `scripted`: conversations whose turns are given, such as gold answers and attacks on a reward
- `chat`: chat templates, from messages to tokens and back
"""

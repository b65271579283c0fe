"""Conversations between a policy and an environment, turn by turn.

- `preparing`: makes a policy ready for an environment's conversations
- `dialogue`: an environment with its tools and limits, and one conversation with it, without tokens
- `tools`: one call of a tool, within its time limit
- `opening`: conversations whose environment runs in a worker process, and the choice of these or others
- `examples`: solved tasks that a model reads before each prompt
- `live`: a rollout in progress, with its tokens
- `sampled`: many conversations side by side, whose turns an engine samples
- `asked`: conversations whose turns a model behind an address gives, without tokens, and a first answer of it
- `shown`: what an environment shows before a task, as a version of a policy keeps it
- `scripted`: conversations whose turns are given, such as gold answers and attacks on a reward
- `rollout`: collects the rollouts of many tasks
- `chat`: chat templates, from messages to tokens and back
"""

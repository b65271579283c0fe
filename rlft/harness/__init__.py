"""Conversations between a policy and an environment, turn by turn.

- `playground`: an environment with its tools, and the limits of its conversations
- `preparing`: makes a policy ready for an environment's conversations
- `dialogue`: one conversation with an environment: its messages, tools and state, without tokens
- `tools`: one call of a tool, within its time limit
- `remote`, `opening`: conversations whose environment runs in a worker process, and who chooses these or others
- `examples`: solved tasks that a model reads before each prompt
- `live`: a rollout in progress, with its tokens
- `sampled`: many conversations side by side, whose turns an engine samples
- `asked`: conversations whose turns a model behind an address gives, without tokens
- `first_answer`: asks a model behind an address once, before anything depends on it
- `shown`: what an environment shows before a task, as a version of a policy keeps it
- `headway`: the progress of a set of conversations
- `scripted`: conversations whose turns are given, such as gold answers and attacks on a reward
"""

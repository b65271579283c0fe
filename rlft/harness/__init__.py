"""Conversations between a policy and an environment, turn by turn.

- `playground`: an environment with its tools, and the limits of its conversations
- `preparing`: makes a policy ready for an environment's conversations
- `dialogue`: one conversation with an environment: its messages, tools and state, without tokens
- `tools`: one call of a tool, within its time limit
- `background`: the thread in which an environment's code runs
- `live`: a rollout in progress, with its tokens
- `sampled`: many conversations side by side, whose turns an engine samples
- `headway`: the progress of a set of conversations
- `scripted`: conversations whose turns are given, such as gold answers and attacks on a reward
"""

from rlft.harness.dialogue import Attempt
from rlft.harness.sampled import run_attempts

__all__ = ["Attempt", "run_attempts"]

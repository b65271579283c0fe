"""The turns between a policy and an environment.

- `playground`: an environment as its conversations meet it, and the settings of a rollout
- `preparing`: a policy made ready for an environment's conversations
- `dialogue`: one conversation with an environment: its messages, tools and state; no tokens
- `tools`: one call of a tool, within its time limit
- `background`: the thread in which an environment's code runs
- `live`: a rollout while it is made, with its tokens
- `sampled`: dialogues whose turns an engine samples, all of them together, with exact tokens
- `headway`: how far a set of conversations is
- `scripted`: a dialogue whose turns are written down, for gold answers and attacks
"""

from rlft.harness.dialogue import Attempt
from rlft.harness.sampled import run_attempts

__all__ = ["Attempt", "run_attempts"]

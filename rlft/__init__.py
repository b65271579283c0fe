"""rlft: reinforcement-learning fine-tuning of language models.

The names here are those that a user's environment needs. To read the code, start at `rlft.iteration`.
"""

from rlft.environments.contract.base import BaseEnv, Context
from rlft.environments.contract.marks import metric, reward, tool
from rlft.files import file_hash
from rlft.types import Message, Rollout, Task, Trajectory, Turn

__all__ = [
    "BaseEnv",
    "Context",
    "Message",
    "Rollout",
    "Task",
    "Trajectory",
    "Turn",
    "file_hash",
    "metric",
    "reward",
    "tool",
]

"""rlft: reinforcement-learning fine-tuning of language models. Start reading at `rlft.iteration`."""

from rlft.environments.base import BaseEnv, Context
from rlft.environments.marks import metric, reward, tool
from rlft.types import Message, Rollout, Task, Trajectory

__all__ = ["BaseEnv", "Context", "Message", "Rollout", "Task", "Trajectory", "metric", "reward", "tool"]

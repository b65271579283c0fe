"""The things that flow through a run: tasks, rollouts, rewards, reports. Frozen, and all there is to know of a stage.

`Task` -> (harness, engine) -> `Rollout` -> (environment) -> `Reward` -> (advantage, loss) -> next policy.
"""

from rlft.types.message import FunctionCall, InvalidToolCall, Message, ToolCall
from rlft.types.report import Evaluation, EvaluationReport, Interval, Report, TrainReport
from rlft.types.reward import Reward, Rewards
from rlft.types.rollout import Rollout, Rollouts, StopReason
from rlft.types.task import SPLITS, Split, Task, TaskSet
from rlft.types.trajectory import Trajectory

__all__ = [
    "SPLITS",
    "Evaluation",
    "EvaluationReport",
    "FunctionCall",
    "Interval",
    "InvalidToolCall",
    "Message",
    "Report",
    "Reward",
    "Rewards",
    "Rollout",
    "Rollouts",
    "Split",
    "StopReason",
    "Task",
    "TaskSet",
    "ToolCall",
    "TrainReport",
    "Trajectory",
]

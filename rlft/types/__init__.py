"""The data that the stages of a run hand on: tasks, rollouts, rewards and reports, all of them frozen.

`Task` -> (harness, engine) -> `Rollout` -> (environment) -> `Reward` -> (advantage, loss) -> next policy.
"""

from rlft.types.judging import Judging, add_judging, judging_in
from rlft.types.message import FunctionCall, InvalidToolCall, Message, ToolCall
from rlft.types.report import Effect, Evaluation, EvaluationReport, Interval, Report, TrainReport
from rlft.types.reward import Aggregation, Reward, Rewards
from rlft.types.rollout import Rollout, Rollouts, StopReason
from rlft.types.task import SPLITS, Split, Task, TaskSet
from rlft.types.trajectory import Trajectory, Turn

__all__ = [
    "SPLITS",
    "Aggregation",
    "Effect",
    "Evaluation",
    "EvaluationReport",
    "FunctionCall",
    "Interval",
    "InvalidToolCall",
    "Judging",
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
    "Turn",
    "add_judging",
    "judging_in",
]

"""The data that the stages of a run hand on: tasks, rollouts, rewards and reports, all of them frozen.

`Task` -> (harness, engine) -> `Rollout` -> (environment) -> `Reward` -> (advantage, loss) -> next policy.
`task`, `rollout` and `results` hold them; `thinking` parts what a model thought from what it answered.
`storage` makes tables of them, and `formats` says in which version of a format each is stored.
`declared` finds what is one class in one file, such as a loss, by its name.
"""

from rlft.types.results import (
    Effect,
    Evaluation,
    EvaluationReport,
    Interval,
    Judging,
    Report,
    Reward,
    Rewards,
    TrainReport,
    add_judging,
    judging_in,
)
from rlft.types.rollout import Rollout, Rollouts, StopReason, Trajectory, Turn
from rlft.types.task import SPLITS, FunctionCall, InvalidToolCall, Message, Split, Task, TaskSet, ToolCall, derive_seed

__all__ = [
    "SPLITS",
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
    "derive_seed",
    "judging_in",
]

"""Small tasks and rollouts for the tests of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.outcome import Failure
from rlft.rewards.audit.report import AuditReport
from rlft.rewards.audit.rewards import audit_reward
from rlft.types import Message, Rollout, Rollouts, Task


def make_task(task_id: str, prompt: str, answer: Any, **info: Any) -> Task:
    return Task(task_id, "test", (Message(role="user", content=prompt),), answer, info, "train", task_id)


def make_rollout(task: Task, *messages: Message, error: Failure | None = None, sample: int = 0) -> Rollout:
    """A rollout with exactly these messages."""
    return Rollout(
        rollout_id=f"{task.id}/{sample}", task_id=task.id, sample=sample, round=0, messages=messages,
        token_ids=np.zeros(0, np.int32), loss_mask=np.zeros(0, np.bool_), logprobs=np.zeros(0, np.float32),
        prompt_length=0, turns=1, tool_calls=0, tool_errors=0, state={}, stop_reason="stop", truncated=False,
        error=error, seconds=0.0, policy="p", sampling="s", environment="test", seed=0,
    )  # fmt: skip


def answered(task: Task, *texts: str) -> Rollouts:
    """One rollout per text, each the task's prompt and the text."""
    return Rollouts(
        tuple(
            make_rollout(task, *task.prompt, Message(role="assistant", content=text), sample=sample)
            for sample, text in enumerate(texts)
        )
    )


def attempt(task: Task, text: str, environment: BaseEnv) -> Rollout:
    """A rollout that answers the task with this text; it has no tokens."""
    return play_scripts([Part(f"attempt/{task.id}", task, as_script(text))], environment)[0]


def audited(tasks: Sequence[Task], environment: BaseEnv, **settings: Any) -> AuditReport:
    """The audit of a reward; the settings are those of the section `reward`, and what else `audit_reward` takes."""
    reward = {name: settings.pop(name) for name in RewardConfig.model_fields if name in settings}
    return audit_reward(tasks, environment, RewardConfig(**{"timeout_seconds": 5.0, **reward}), **settings)

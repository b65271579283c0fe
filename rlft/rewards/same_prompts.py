"""Checks that stored attempts answer what an environment asks now: another reward says nothing of other prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlft.contract.base import BaseEnv, prompt_messages
from rlft.errors import RlftError
from rlft.types import Rollout, Rollouts, Task


def of_tasks(rollouts: Rollouts, tasks: Mapping[str, Task]) -> Rollouts:
    """Return the rollouts of these tasks alone."""
    return replace(rollouts, rows=tuple(rollout for rollout in rollouts if rollout.task_id in tasks))


def other_prompts(rollouts: Rollouts, tasks: Mapping[str, Task], environment: BaseEnv) -> list[str]:
    """Return the tasks for which the environment gives another prompt than these rollouts begin with, by their ids.

    Raises RlftError if it is another kind of prompt, with messages of other roles: such attempts have no score.
    """
    first: dict[str, Rollout] = {}
    for rollout in rollouts:
        first.setdefault(rollout.task_id, rollout)
    differing = []
    for task_id, rollout in first.items():
        now = [(message["role"], message.get("content")) for message in prompt_messages(tasks[task_id], environment)]
        then = [(message["role"], message.get("content")) for message in rollout.messages[: len(now)]]
        if [role for role, _ in now] != [role for role, _ in then]:
            raise RlftError(
                f"it begins a conversation with {_roles(now)}, and the attempts begin with {_roles(then)} "
                f"(task {task_id})",
                where="environment",
                fix="take the environment of the run, and change its reward alone; other prompts need new attempts",
            )
        if now != then:
            differing.append(task_id)
    return differing


def _roles(messages: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join(role for role, _ in messages) or "nothing"

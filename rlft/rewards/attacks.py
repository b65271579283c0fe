"""Texts that answer a task, and texts that do not, as rollouts that were never sampled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rlft.environments.base import BaseEnv, prompt_messages
from rlft.types import Message, Rollout, Task

ATTACKS = ("empty", "echo", "constant", "other_gold", "most_common")
OTHER_ANSWERS = ("other_gold", "most_common")
CONSTANT = "I do not know."


def attack_texts(
    tasks: Sequence[Task], golds: Mapping[str, str], picked: Sequence[Task], seed: int
) -> dict[str, dict[str, str]]:
    """{task id: {kind: text}} for the picked tasks; kinds are `gold` and `ATTACKS`.

    `golds` maps ids of `tasks` to gold completions. A text that is the task's own gold is no attack and left out.
    """
    most_common = Counter(golds.values()).most_common(1)[0][0] if golds else None
    return {task.id: _texts(task, golds, most_common, _other_gold(task, tasks, golds, seed)) for task in picked}


def attempt(task: Task, text: str, environment: BaseEnv) -> Rollout:
    """A rollout that answers the task with this text; it has no tokens."""
    nothing = np.zeros(0)
    return Rollout(
        rollout_id=f"audit/{task.id}",
        task_id=task.id,
        sample=0,
        round=0,
        messages=(*prompt_messages(task, environment), Message(role="assistant", content=text)),
        token_ids=nothing.astype(np.int32),
        loss_mask=nothing.astype(np.bool_),
        logprobs=nothing.astype(np.float32),
        prompt_length=0,
        turns=1,
        tool_calls=0,
        tool_errors=0,
        state={},
        stop_reason="stop",
        truncated=False,
        error=None,
        seconds=0.0,
        policy="",
        sampling="",
        environment=task.environment,
        seed=0,
    )


def _texts(task: Task, golds: Mapping[str, str], most_common: str | None, other_gold: str | None) -> dict[str, str]:
    gold = golds.get(task.id)
    attacks = {
        "empty": "",
        "echo": "\n".join(message["content"] for message in task.prompt),
        "constant": CONSTANT,
        "other_gold": other_gold,
        "most_common": most_common,
    }
    own = {} if gold is None else {"gold": gold}
    return own | {kind: text for kind, text in attacks.items() if text is not None and text != gold}


def _other_gold(task: Task, tasks: Sequence[Task], golds: Mapping[str, str], seed: int) -> str | None:
    """The gold of the first task, from a random place on, whose answer and gold are not this task's."""
    start = random.Random(f"{seed}:{task.id}").randrange(len(tasks))
    for index in range(len(tasks)):
        other = tasks[(start + index) % len(tasks)]
        gold = golds.get(other.id)
        if gold is not None and gold != golds.get(task.id) and (other.answer is None or other.answer != task.answer):
            return gold
    return None

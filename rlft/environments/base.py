"""The contract of an environment: which tools a task may be attempted with, and what an attempt is worth.

Three coroutines make one; all else has a default:

    class Capitals(rlft.BaseEnv):
        async def compute_reward(self, completion, ground_truth):
            return {"exact": float(completion.text.strip() == ground_truth)}

A reward is a pure function of the task and the stored trajectory, so that any rollout can be scored again. State that
it needs is left in the rollout's `state` as JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from rlft.types import Message, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Context:
    """What the model sees beside the task's own prompt.

    `system_prompt` is put first when it is not empty. `history` says which earlier turns stay visible: `full` keeps
    all of them (the only policy whose tokens are a prefix of the next turn's), `last_turn` drops all but the newest.
    """

    system_prompt: str = ""
    history: Literal["full", "last_turn"] = "full"


class BaseEnv:
    """Base class of environments. Constructor arguments come from `environment.kwargs` in the config.

    `max_turns` bounds the conversation; 1 is a single answer without tools.
    """

    max_turns: int = 1

    def context(self, task: Task) -> Context:
        """System prompt and history policy for this task."""
        del task
        return Context()

    async def list_tools(self) -> list[dict[str, Any]]:
        """The tools a model may call: dicts with `name`, `description` and `parameters`; none by default."""
        return []

    async def run_tool(self, rollout_id: str, tool_name: str, **args: Any) -> Any:
        """Run one call and return what the model should see. An exception becomes a message to the model."""
        raise LookupError(f"no tool named {tool_name!r} (rollout {rollout_id}, arguments {sorted(args)})")

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Score an attempt.

        `completion` holds the messages after the prompt (`completion.text` is the last answer, `completion.task` the
        task); `ground_truth` is the task's answer. Returns {part: score}; 1 is full, `None` means not applicable.
        An exception, NaN or infinity is recorded as an error of this rollout, never as 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must define compute_reward(completion, ground_truth)")

    def gold_completion(self, task: Task) -> str | None:
        """A text that deserves the full reward, for the reward audit and for demonstrations; `None` if unknown."""
        if task.answer is None:
            return None
        return task.answer if isinstance(task.answer, str) else json.dumps(task.answer, ensure_ascii=False)

    def final_answer(self, completion: Trajectory) -> str | None:
        """The answer an attempt comes down to, for majority votes; the stripped text by default."""
        return completion.text.strip() or None

    def data_fingerprint(self) -> str:
        """Identity of data the environment reads (a corpus, an index); override when it reads any."""
        return ""


def prompt_messages(task: Task, environment: BaseEnv) -> tuple[Message, ...]:
    """The messages a rollout of this task begins with: the context's system prompt, if any, then the task's prompt.

    The one place that says so: the harness renders these, and scoring takes what follows them for the attempt. The
    prompt may hold assistant messages of its own (worked examples); they are never scored.
    """
    system_prompt = environment.context(task).system_prompt
    if not system_prompt:
        return tuple(task.prompt)
    return (Message(role="system", content=system_prompt), *task.prompt)

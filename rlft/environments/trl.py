"""An environment whose reward is a list of functions in TRL's form, used unchanged.

Such a function is `f(prompts, completions, **columns) -> list[float | None]`
(https://huggingface.co/docs/trl/grpo_trainer).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import validate_call

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import LoadedFunction, load_function
from rlft.environments.fingerprints import module_code
from rlft.errors import TaskError
from rlft.tasks.rows import format_template
from rlft.types import Task, Trajectory

Format = Literal["standard", "conversational"]


class FunctionRewards(BaseEnv):
    """Base class of environments whose reward is made of functions that were written for another library."""

    def __init__(
        self,
        functions: Sequence[LoadedFunction],
        gold_template: str | None,
        maxima: Mapping[str, float] | None,
        minima: Mapping[str, float] | None,
    ) -> None:
        """Set the functions, how a full answer is written, and the ends of the parts' ranges."""
        self._functions = list(functions)
        self.gold_template = gold_template
        self.maxima, self.minima = dict(maxima or {}), dict(minima or {})

    def columns(self, task: Task) -> dict[str, Any]:
        """Return the columns of a task's row."""
        return task.info

    def reward_maxima(self) -> dict[str, float]:
        """Return the `maxima` that the environment was made with."""
        return self.maxima

    def reward_minima(self) -> dict[str, float]:
        """Return the `minima` that the environment was made with."""
        return self.minima

    def gold_completion(self, task: Task) -> str | None:
        """Return `gold_template` filled in with the row's columns, or `None` if there is no template."""
        return None if self.gold_template is None else format_template(self.columns(task), self.gold_template)

    def reward_fingerprint(self) -> str:
        """Return the code of the functions' modules and of what these import."""
        return "\n".join(f"# {each.name}\n{module_code(each.module)}" for each in self._functions)


class TrlRewards(FunctionRewards):
    """Scores an attempt with reward functions written for TRL.

    Parts: one per function, under the function's name; `None` means not applicable, as in TRL. A function is called by
    keyword with `prompts`, `completions` and the row's columns except `prompt`, each a list of length one, since a
    reward in rlft is a function of one rollout. A function that compares the completions of a batch with each other
    therefore does not work. Coroutine functions do. The task's answer is passed as the column `answer_column`.
    """

    @validate_call
    def __init__(
        self,
        reward_functions: Sequence[str],
        format: Format,
        answer_column: str = "answer",
        gold_template: str | None = None,
        maxima: Mapping[str, float] | None = None,
        minima: Mapping[str, float] | None = None,
    ) -> None:
        """Load `reward_functions`, a list of names `package.module:function` or `path/to/file.py:function`.

        `format` is what the functions were written for: `standard` (prompt and completion are texts) or
        `conversational` (both are lists of messages). `gold_template` is how a full answer is written from the columns,
        such as `<answer>{answer}</answer>`; without one the reward audit knows no gold answer. `maxima` maps the names
        of functions to what they return for a full answer where that is not 1, and to 0 where they only take away;
        `minima` maps them to the lowest that they can return, which intervals of the reward need. Raises
        `EnvironmentSetupError` for functions that cannot be loaded.
        """
        functions = [load_function(name, "environment.kwargs.reward_functions") for name in reward_functions]
        parts = [each.name for each in functions]
        if len(set(parts)) < len(parts):
            raise ValueError(f"two of {', '.join(parts)} have one name, so their parts would be one; rename one")
        super().__init__(functions, gold_template, maxima, minima)
        self.format: Format = format
        self.answer_column = answer_column

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the score that each function gives the one completion.

        Raises what a function raises, such as TypeError for a task that lacks a column that it needs.
        """
        del ground_truth
        task = completion.task
        if self.format == "standard":
            given: dict[str, Any] = {"prompts": _text_of(task), "completions": completion.whole}
        else:
            given = {"prompts": list(task.prompt), "completions": list(completion.sampled)}
        given |= {
            name: value for name, value in self.columns(task).items() if name != "prompt"
        }  # TRL gives it as `prompts` alone
        return {each.name: await _ask(each, given) for each in self._functions}

    def columns(self, task: Task) -> dict[str, Any]:
        """Return the row's columns, and the task's answer as `answer_column`."""
        return columns_of(task, self.answer_column)


def columns_of(task: Task, answer_column: str) -> dict[str, Any]:
    """Return the row's columns, which are in `task.info`, and the task's answer as `answer_column`."""
    return {**({} if task.answer is None else {answer_column: task.answer}), **task.info}


def _text_of(task: Task) -> str:
    """Return the prompt as text. Raises TaskError for a prompt that is not a single message of the user."""
    if len(task.prompt) != 1 or task.prompt[0]["role"] != "user":
        raise TaskError(
            f"the prompt of task {task.id} is a conversation of {len(task.prompt)} messages, not a text",
            where="TrlRewards",
            fix="set format: conversational in environment.kwargs, and use functions written for messages",
        )
    return task.prompt[0]["content"]


async def _ask(function: LoadedFunction, given: Mapping[str, Any]) -> float | None:
    """Return one function's score of one completion; `given` holds all that a function may ask for, by name."""
    takes = inspect.signature(function.call).parameters.values()
    takes_all = any(each.kind is each.VAR_KEYWORD for each in takes)
    names = [name for name in given if takes_all or name in {each.name for each in takes}]
    # Copies, as what the function changes must not reach the task or the next function.
    scores = function.call(**{name: [copy.deepcopy(given[name])] for name in names})
    scores = list(await scores if inspect.isawaitable(scores) else scores)
    if len(scores) != 1:
        raise ValueError(f"{function.name} returned {len(scores)} scores for one completion")
    return scores[0]

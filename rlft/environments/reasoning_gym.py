"""An environment for the procedural problems of reasoning-gym (arXiv:2505.24760), scored by their own verifiers."""

from __future__ import annotations

import json
import re
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.environments.generator_checks import gold_answer, score_answer
from rlft.errors import EnvironmentSetupError, TaskError
from rlft.tasks.reasoning_gym import load_generator
from rlft.types import Task, Trajectory


class ReasoningGym(BaseEnv):
    """Scores an answer by the verifier of the generator that made the task.

    Parts: `correct` (the verifier's score is exactly 1) and, with `partial_credit`, `score` (the score itself). Some
    verifiers pay wrong answers in part: answer 19 for gold 9 scores 0.5 in chain_sum. So only a score of 1 is correct.
    A task's `info` holds `generator`, `generator_kwargs` and `entry`, as `rlft.tasks.reasoning_gym` makes it.
    """

    def __init__(
        self, partial_credit: bool = False, answer_pattern: str | None = None, gold_template: str = "{answer}"
    ) -> None:
        """Set how an answer is declared: `answer_pattern` is a regular expression whose first group is the answer.

        It must match exactly once: a text that declares two answers earns nothing. Without a pattern the whole text is
        the answer. `gold_template` is the form in which a gold answer is declared, such as "Answer: {answer}". Raises
        `EnvironmentSetupError` for a pattern or template that cannot be used.
        """
        self.partial_credit = partial_credit
        self.answer_pattern = None if answer_pattern is None else _compile(answer_pattern)
        self.gold_template = gold_template
        self._generators: dict[str, Any] = {}
        if "{answer}" not in gold_template:
            raise EnvironmentSetupError(
                f"gold_template={gold_template!r} has no place for the answer",
                where="environment.kwargs",
                fix="put {answer} where the answer stands",
            )

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the verifier's score of the answer; an answer that is missing or cannot be read scores 0.

        Raises `TaskError` for a task that is not reasoning-gym's.
        """
        del ground_truth
        answer = self.final_answer(completion)
        score = 0.0
        if answer is not None:
            info = _info(completion.task)
            score = score_answer(self._generator(info), _generator_name(info), answer, info["entry"])
        parts: dict[str, float | None] = {"correct": float(score == 1.0)}
        return {**parts, "score": score} if self.partial_credit else parts

    def reward_minima(self) -> dict[str, float]:
        """Return 0 for `correct`; what verifiers return at worst as `score` is not known."""
        return {"correct": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the declared answer, or the whole text if there is no `answer_pattern`."""
        return self._declared(completion.text)

    def gold_completion(self, task: Task) -> str | None:
        """Return the entry's answer in `gold_template`; `None` if it has none or `answer_pattern` would not find it.

        Where an entry names no answer but an example of one (`graph_color`, `rubiks_cube`), the example is returned.
        """
        answer = gold_answer(_info(task)["entry"])
        if answer is None:
            return None
        text = self.gold_template.replace("{answer}", answer)
        return text if self._declared(text) == answer.strip() else None

    def _declared(self, text: str) -> str | None:
        if self.answer_pattern is None:
            return text.strip() or None
        matches = list(self.answer_pattern.finditer(text))
        return (matches[0].group(1) or "").strip() or None if len(matches) == 1 else None

    def _generator(self, info: dict[str, Any]) -> Any:
        """Return the generator, whose method `score_answer` is the verifier. It is made once: some take seconds."""
        name, kwargs = info["generator"], info.get("generator_kwargs") or {}
        key = json.dumps([name, kwargs], sort_keys=True)
        if key not in self._generators:
            self._generators[key] = load_generator(name, kwargs, seed=0, size=1)
        return self._generators[key]


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise EnvironmentSetupError(
            f"answer_pattern={pattern!r} is no regular expression: {error}", where="environment.kwargs"
        ) from error
    if not compiled.groups:
        raise EnvironmentSetupError(
            f"answer_pattern={pattern!r} has no group",
            where="environment.kwargs",
            fix="put the answer into parentheses: Answer: (.+)",
        )
    return compiled


def _info(task: Task) -> dict[str, Any]:
    if not {"generator", "entry"} <= task.info.keys():
        raise TaskError(
            f"task {task.id} was not made by a reasoning-gym generator (its info has {sorted(task.info)})",
            where="ReasoningGym",
            fix="use tasks.source: reasoning_gym, or another environment",
        )
    return task.info


def _generator_name(info: dict[str, Any]) -> str:
    """Return the name of the generator that made the entry: for a `composite`, the one that it chose."""
    if info["generator"] != "composite":
        return info["generator"]
    return info["entry"]["metadata"]["source_dataset"]

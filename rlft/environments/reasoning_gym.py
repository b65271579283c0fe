"""Procedural problems of reasoning-gym (arXiv:2505.24760), scored by the verifier of the generator that made them."""

from __future__ import annotations

import json
import re
from typing import Any

from rlft.contract.base import BaseEnv
from rlft.environments.generator_checks import gold_answer, score_answer
from rlft.errors import EnvironmentSetupError, TaskError
from rlft.tasks.reasoning_gym import load_generator
from rlft.types import Task, Trajectory


class ReasoningGym(BaseEnv):
    """Parts: `correct` (the verifier's score is exactly 1) and, with `partial_credit`, `score` (the score itself).

    Some verifiers pay for less than an answer: gold 9 and answer 19 score 0.5 in chain_sum. So only 1 is correct.
    Tasks carry `info` = {generator, generator_kwargs, entry}, as `rlft.tasks.reasoning_gym` makes them.
    """

    def __init__(
        self, partial_credit: bool = False, answer_pattern: str | None = None, gold_template: str = "{answer}"
    ) -> None:
        """`answer_pattern` is a regular expression whose first group is the answer; without one all the text is.

        It must match exactly once: a second declared answer earns nothing. `gold_template` is how a gold answer is
        then written, such as "Answer: {answer}".
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
        """The verifier's score of the answer; no answer, and one that it cannot read, scores 0."""
        del ground_truth
        answer = self.final_answer(completion)
        score = 0.0
        if answer is not None:
            info = _info(completion.task)
            score = score_answer(self._generator(info), _generator_name(info), answer, info["entry"])
        parts: dict[str, float | None] = {"correct": float(score == 1.0)}
        return {**parts, "score": score} if self.partial_credit else parts

    def final_answer(self, completion: Trajectory) -> str | None:
        """The declared answer, or all of the text without `answer_pattern`."""
        return self._declared(completion.text)

    def gold_completion(self, task: Task) -> str | None:
        """The entry's own answer, written so that `answer_pattern` finds it; `None` where it has none or cannot.

        Where an entry names no answer but an example of one (`graph_color`, `rubiks_cube`), it is that.
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
        """The generator with its verifier; made once, as some take seconds to make."""
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
    """The generator that made the entry: of a composite, the one within it."""
    if info["generator"] != "composite":
        return info["generator"]
    return info["entry"]["metadata"]["source_dataset"]

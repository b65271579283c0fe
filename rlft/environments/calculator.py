"""Arithmetic with a calculator: shows whether a model learns to call a tool and to answer with the tool's result.

The tasks are those of reasoning-gym's arithmetic generators; the answer is a number. A model may answer at once or call
the calculator first. The call itself earns nothing, so a model that calculates well need not call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, validate_call

import rlft
from rlft.environments.contract.base import BaseEnv
from rlft.messages import make_call
from rlft.rewards.graders.numbers import format_number, parse_number
from rlft.types import Message, Task, Trajectory

_EXPRESSION = re.compile(r"[-+*/(). 0-9]+")


class Calculator(BaseEnv):
    """Asks for the result of an expression, with a calculator as a tool.

    Parts: `correct` (the last answer is the right number, and nothing but a number). Metrics: `used_tool`. A task's
    answer is a number as text. Its prompt, or `info["entry"]["metadata"]["expression"]`, holds the expression.
    """

    max_turns = 2

    @validate_call
    def __init__(self, shown_with_tool: Annotated[float, Field(ge=0, le=1)] = 0.25) -> None:
        """Set up the demonstrations: a share `shown_with_tool` of them calls the calculator, the others do not."""
        self.shown_with_tool = shown_with_tool

    @rlft.tool
    def calculate(self, expression: str) -> str:
        """Calculate an expression of numbers, + - * / and parentheses, exactly.

        Args:
            expression: Such as (12 + 3) * 4.
        """
        return format_number(calculate(expression))

    @rlft.reward(minimum=0.0)
    def correct(self, text: str, ground_truth: Any) -> float:
        """Return 1 if the last answer is the task's number, in any notation, else 0."""
        gold = parse_number(str(ground_truth))
        if gold is None:
            raise ValueError(f"the task's answer {ground_truth!r} is not one number")
        return float(parse_number(text) == gold)

    @rlft.metric
    def used_tool(self, completion: Trajectory) -> float:
        """Return 1 if any call of the calculator gave a result, else 0."""
        return float(any(m["role"] == "tool" and not m.get("failed") for m in completion))

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the answered number in one notation, so that 18 and 18.0 are the same vote, or `None`."""
        number = parse_number(completion.text)
        return None if number is None else format_number(number)

    def gold_completion(self, task: Task) -> Sequence[Message]:
        """Return a call of the calculator and the answer, as two assistant messages."""
        asks = make_call("calculate", {"expression": expression_of(task)}, "1")
        return [
            {"role": "assistant", "content": "", "tool_calls": [asks]},
            {"role": "assistant", "content": str(task.answer)},
        ]

    def demonstration(self, task: Task) -> str | Sequence[Message]:
        """Return the gold conversation for a share `shown_with_tool` of the tasks, for the others the bare answer.

        Which it is depends on the task's id alone.
        """
        draw = int.from_bytes(hashlib.sha256(task.id.encode()).digest()[:4], "big") / 2**32
        return self.gold_completion(task) if draw < self.shown_with_tool else str(task.answer)


def expression_of(task: Task) -> str:
    """Return the expression that a task asks for: the generator's, else the longest one in its prompt.

    Raises ValueError if there is none.
    """
    text = task.info.get("entry", {}).get("metadata", {}).get("expression") or task.prompt[-1]["content"]
    found = [piece.rstrip("-+*/(. ") for piece in _EXPRESSION.findall(str(text))]
    if not any(found):
        raise ValueError(f"task {task.id} has no expression in {text!r:.80}")
    return max(found, key=len).strip()


def calculate(expression: str) -> Fraction:
    """Return the exact value of an expression of numbers, + - * / and parentheses.

    Raises ValueError for anything else, and for a division by 0.
    """
    from rlft.rewards.graders.expressions import exact_value  # which imports sympy

    value = exact_value(expression)
    if value is None:
        raise ValueError("only numbers, + - * / and parentheses can be calculated, and nothing is divided by 0")
    return value

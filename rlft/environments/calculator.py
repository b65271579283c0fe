"""Arithmetic with a calculator: whether a model learns to use a tool, and to take over what the tool says.

The tasks are those of reasoning-gym's arithmetic generators; the answer is a number. A model may answer at once or ask
the calculator first. Nothing is paid for the call itself, so a model that calculates well need not call.
"""

from __future__ import annotations

import ast
import hashlib
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import rlft
from rlft.calls import make_call
from rlft.contract.base import BaseEnv
from rlft.errors import EnvironmentSetupError
from rlft.graders.numbers import format_number, parse_number
from rlft.types import Message, Task, Trajectory

_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_LONGEST = 200  # characters of an expression
_EXPRESSION = re.compile(r"[-+*/(). 0-9]+")


class Calculator(BaseEnv):
    """Parts: `correct` (the answer is the right number, and nothing but a number); metric `used_tool`.

    A task's answer is a number as text. Its prompt, or `info["metadata"]["expression"]`, holds the expression.
    """

    max_turns = 2

    def __init__(self, shown_with_tool: float = 0.25) -> None:
        """`shown_with_tool` (0 to 1) is the share of demonstrations that ask the calculator; the others answer."""
        if not 0 <= shown_with_tool <= 1:
            raise EnvironmentSetupError(
                f"shown_with_tool={shown_with_tool} is no share", where="environment.kwargs", fix="use 0 to 1"
            )
        self.shown_with_tool = shown_with_tool

    @rlft.tool
    def calculate(self, expression: str) -> str:
        """Calculate an expression of numbers, + - * / and parentheses, exactly.

        Args:
            expression: Such as (12 + 3) * 4.
        """
        return format_number(calculate(expression))

    @rlft.reward
    def correct(self, text: str, ground_truth: Any) -> float:
        """The last answer is this number, written in any way."""
        gold = parse_number(str(ground_truth))
        if gold is None:
            raise ValueError(f"the task's answer {ground_truth!r} is not one number")
        return float(parse_number(text) == gold)

    @rlft.metric
    def used_tool(self, completion: Trajectory) -> float:
        """The calculator gave a result."""
        return float(any(m["role"] == "tool" and not m.get("failed") for m in completion))

    def final_answer(self, completion: Trajectory) -> str | None:
        """The number in one notation."""
        number = parse_number(completion.text)
        return None if number is None else format_number(number)

    def gold_completion(self, task: Task) -> Sequence[Message]:
        """The calculator is asked, and its result is the answer."""
        asks = make_call("calculate", {"expression": expression_of(task)}, "1")
        return [
            {"role": "assistant", "content": "", "tool_calls": [asks]},
            {"role": "assistant", "content": str(task.answer)},
        ]

    def demonstration(self, task: Task) -> str | Sequence[Message]:
        """Some with the calculator and some without, always the same ones."""
        draw = int.from_bytes(hashlib.sha256(task.id.encode()).digest()[:4], "big") / 2**32
        return self.gold_completion(task) if draw < self.shown_with_tool else str(task.answer)


def expression_of(task: Task) -> str:
    """The expression that a task asks for. Raises ValueError when there is none."""
    text = task.info.get("entry", {}).get("metadata", {}).get("expression") or task.prompt[-1]["content"]
    found = [piece.rstrip("-+*/(. ") for piece in _EXPRESSION.findall(str(text))]
    if not any(found):
        raise ValueError(f"task {task.id} has no expression in {text!r:.80}")
    return max(found, key=len).strip()


def calculate(expression: str) -> Fraction:
    """The exact value. Raises ValueError for anything but numbers, + - * /, parentheses; ZeroDivisionError."""
    if len(expression) > _LONGEST:
        raise ValueError(f"{len(expression)} characters are too many; {_LONGEST} are allowed")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r} is no expression") from error
    return _value(tree.body)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return Fraction(str(node.value))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.operand))
    raise ValueError("only numbers, + - * / and parentheses can be calculated")

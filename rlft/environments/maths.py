r"""An environment for maths problems whose answer is an expression, declared once as `\boxed{...}` in LaTeX.

Equality is symbolic (`graders.symbolic`, math-verify), so `\frac{3}{2\sqrt3}` is `\frac{\sqrt{3}}{2}`; a number is
compared exactly and must be a number: `2+3` is not 5. An answer that only repeats a piece of the problem earns nothing
unless the gold answer stands in the problem too.

Known loopholes: where the problem is to rewrite an expression (factor, expand), the problem's expression in a slightly
different order counts as equal to the gold answer; give such tasks another environment. Units are not compared, and
letters are compared without regard to case.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from rlft.environments.contract.base import BaseEnv, Context
from rlft.rewards.graders.latex import (
    LONGEST_ANSWER,
    boxed_answer,
    latex_number,
    named_value,
    plain_latex,
    recurring_decimal,
    without_unit,
)
from rlft.rewards.graders.numbers import format_number, parse_number
from rlft.rewards.graders.symbolic import same_answer
from rlft.types import Task, Trajectory

_VARIABLE = re.compile(r"[0-9.}][A-Za-z]|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")  # so that 3t is not read as 3 tons
_LAYOUT = re.compile(r"(?<![0-9])\s+|\s+(?![0-9])|\\left|\\right|\\[,;:! ]|\$")


class Maths(BaseEnv):
    r"""Asks for a worked solution with one boxed answer, and scores that answer.

    Parts: `correct` (the one boxed answer is the gold one) and `format` (there is one box, and it is not empty).
    `format` pays wrong answers too; give it a weight of 0 or a small one. A task's answer is the gold expression in
    LaTeX, alone or as `\boxed{...}` in a solution.
    """

    def context(self, task: Task) -> Context:
        """Return the system prompt, which tells the model to reason and to box the answer."""
        del task
        return Context("Solve the problem step by step. Give the final answer once, at the end, as \\boxed{answer}.")

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return 1 in `correct` for the gold answer and 1 in `format` for any one declared answer, else 0.

        Raises ValueError for a task's answer that boxes nothing, or two expressions.
        """
        gold, answer = _gold(ground_truth), _declared(completion)
        if answer is None:
            return {"correct": 0.0, "format": 0.0}
        problem = "\n".join(message["content"] for message in completion.task.prompt)
        return {"correct": float(_is_gold(answer, gold) and not _is_echo(answer, gold, problem)), "format": 1.0}

    def reward_minima(self) -> dict[str, float]:
        """Return 0: no part of a score is below it."""
        return {"*": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the declared answer, a number in one notation and anything else without white space and layout."""
        answer = _declared(completion)
        number = None if answer is None else _number(answer)
        if answer is None or number is not None:
            return None if number is None else format_number(number)
        return _without_layout(answer)

    def gold_completion(self, task: Task) -> str | None:
        """Return the boxed gold answer, without any reasoning."""
        return None if task.answer is None else f"\\boxed{{{_gold(task.answer)}}}"

    def demonstration(self, task: Task) -> str | None:
        r"""Return the data's own solution with its boxed gold answer; the box is put at its end if it has none.

        It is the column `solution` of the task's row, or else the task's answer. Without one, and for a solution that
        boxes something else or boxes twice, it is the gold completion.
        """
        gold, solution = self.gold_completion(task), task.info.get("solution")
        if gold is None:
            return None
        if isinstance(solution, str) and solution.strip() and "\\boxed" not in solution:
            solution = f"{solution.rstrip()}\n{gold}"
        worked = (text for text in (solution, task.answer) if isinstance(text, str))
        return next((text for text in worked if (boxed_answer(text) or "").strip() == _gold(gold)), gold)


def _declared(completion: Trajectory) -> str | None:
    answer = boxed_answer(completion.text)
    return answer.strip() or None if answer is not None else None


def _gold(answer: Any) -> str:
    text = str(answer)
    gold = boxed_answer(text) if "\\boxed" in text else text
    if gold is None or not gold.strip():
        raise ValueError(f"the task's answer {answer!r:.200} is not one expression; name the field that holds it")
    return gold.strip()


def _is_gold(answer: str, gold: str) -> bool:
    """Return whether an answer is the gold one: the same text, or the same number if the gold is one, or expression."""
    if _without_layout(plain_latex(answer)) == _without_layout(plain_latex(gold)):
        return True
    if len(answer) > LONGEST_ANSWER:
        return False
    answer = answer.partition(r"\approx")[0]
    (name, asked), (other_name, said) = _name_and_value(gold), _name_and_value(answer)
    wanted, found = _number(asked), _number(said)
    if wanted is None or (name and other_name and name != other_name):
        return same_answer(gold, answer)
    is_hundredths = "%" in said and "%" not in asked and found is not None
    return found == wanted or (is_hundredths and found == 100 * wanted)


def _name_and_value(text: str) -> tuple[str, str]:
    plain = plain_latex(text)
    return named_value(plain) or ("", plain)


def _number(text: str) -> Fraction | None:
    if len(text) > LONGEST_ANSWER:
        return None
    plain = without_unit(plain_latex(text))
    if _VARIABLE.search(plain):
        return None
    readings = (read(plain) for read in (parse_number, latex_number, recurring_decimal))
    return next((number for number in readings if number is not None), None)


def _is_echo(answer: str, gold: str, problem: str) -> bool:
    """Return whether an answer is a piece of the problem and the gold answer is not.

    An answer of one symbol is no echo, and no answer is one where the gold is a number.
    """
    said, wanted, asked = map(_without_layout, (answer, gold, problem))
    return len(said) > 1 and _number(gold) is None and said in asked and wanted not in asked


def _without_layout(text: str) -> str:
    return _LAYOUT.sub("", text)

"""An environment for maths word problems whose answer is a number, such as GSM8K (arXiv:2110.14168).

The grader reads one declared final answer and nothing else: a number that merely occurs in the text earns nothing.
(On the wrong model solutions of GSM8K, "the gold number occurs" would accept 13 %.) A setting says in which form the
answer is declared:

- `hashes`: a line `#### N`, the data's own form
- `a_colon`: a line `A: N`
- `answer_is`: `The answer is N`, up to the end of its line
- `boxed`: `\\boxed{N}` anywhere

A text with two declarations earns nothing, even if they are of the same number. In the three forms that are lines, a
declaration followed by further lines with a digit in them earns nothing either, nor does one in the last line of a
truncated text, whose number may be cut. Numbers are compared exactly (`rlft.rewards.graders.numbers`, and for LaTeX
`rlft.rewards.graders.latex`); units and currencies are not compared.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Literal

from pydantic import validate_call

from rlft.environments.contract.base import BaseEnv, Context
from rlft.rewards.graders.latex import latex_number, up_to_closing_brace
from rlft.rewards.graders.numbers import format_number, parse_number
from rlft.types import Task, Trajectory

Form = Literal["hashes", "a_colon", "answer_is", "boxed"]

_DECLARATION: dict[str, re.Pattern[str]] = {
    "hashes": re.compile(r"(?<!#)####(?!#)"),
    "a_colon": re.compile(r"^[ \t*_]*A[*_]*:[*_]*", re.MULTILINE),
    "answer_is": re.compile(r"\bthe (?:final )?answer is\b[*_]*:?", re.IGNORECASE),
    "boxed": re.compile(r"\\boxed\s*\{"),
}
_NOTE = re.compile(r"<<[^<>\n]*>>")
_WRITTEN = {"hashes": "#### {}", "a_colon": "A: {}", "answer_is": "The answer is {}.", "boxed": "\\boxed{{{}}}"}
_PLACE = {
    "hashes": "as the last line",
    "a_colon": "as the last line",
    "answer_is": "as the last sentence",
    "boxed": "at the end",
}


class GSM8K(BaseEnv):
    """Asks for a worked solution that declares one number as its final answer, and scores that number.

    Parts: `correct` (the one declared number is the gold one) and `format` (exactly one number is declared). `format`
    pays wrong answers too; give it a weight of 0 or a small one. A task's answer is the gold number as text, alone or
    as the data has it: reasoning that ends with `#### N`.
    """

    @validate_call
    def __init__(self, final_answer_form: Form = "hashes") -> None:
        """Set the form in which the final answer must be declared; the system prompt tells it to the model."""
        self.form: Form = final_answer_form

    def context(self, task: Task) -> Context:
        """Return the system prompt, which tells the model to reason and in which form to declare the answer."""
        del task
        return Context(
            system_prompt="Solve the problem step by step. Give the final answer once, as a number, "
            f"{_PLACE[self.form]}, in this form: {_WRITTEN[self.form].format('N')}"
        )

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return 1 in `correct` for the gold number and 1 in `format` for any one declared number, else 0.

        Raises ValueError if the task's answer is not one number.
        """
        gold = _gold(ground_truth)
        declared = declared_number(completion.text, self.form, truncated=completion.truncated)
        return {"correct": float(declared == gold), "format": float(declared is not None)}

    def reward_minima(self) -> dict[str, float]:
        """Return 0: no part of a score is below it."""
        return {"*": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the declared number in one notation, so that 18, 18.0 and $18 are the same vote."""
        declared = declared_number(completion.text, self.form, truncated=completion.truncated)
        return None if declared is None else format_number(declared)

    def gold_completion(self, task: Task) -> str | None:
        """Return the declaration of the gold number, without any reasoning."""
        return None if task.answer is None else self._declaration(_gold(task.answer))

    def demonstration(self, task: Task) -> str | None:
        """Return the data's own reasoning with the declaration of the gold number as its last line.

        It is that of the task's answer or else of the columns `answer` and `solution` of its row. Without reasoning it
        is the gold completion, and so it is where this form would find another declaration in the reasoning.
        """
        if task.answer is None:
            return None
        gold = _gold(task.answer)
        for text in (task.answer, task.info.get("answer"), task.info.get("solution")):
            worked = _reasoning(text) if isinstance(text, str) else ""
            shown = f"{worked}\n{self._declaration(gold)}"
            if worked and declared_number(shown, self.form) == gold:
                return shown
        return self._declaration(gold)

    def _declaration(self, number: Fraction) -> str:
        return _WRITTEN[self.form].format(format_number(number))


def declared_number(text: str, form: Form, *, truncated: bool = False) -> Fraction | None:
    """Return the number that a text declares as its final answer, or `None` if it does not declare exactly one.

    `truncated` says that the text was cut off, so that a number at its very end is not trusted.
    """
    declarations = list(_DECLARATION[form].finditer(text))
    if len(declarations) != 1:
        return None
    rest = text[declarations[0].end() :]
    if form == "boxed":
        return _number(up_to_closing_brace(rest) or "")
    first, *following = rest.splitlines() or [""]
    is_cut = truncated and rest == first
    if is_cut or any(_has_digit(line) for line in following):
        return None
    return _number(first)


def _reasoning(text: str) -> str:
    """Return what stands before the data's own declaration, without its notes for a calculator (`<<48/2=24>>`).

    That is nothing for a text that is a number alone.
    """
    worked = _NOTE.sub("", text.rsplit("####", 1)[0]).strip()
    return "" if _number(worked) is not None else worked


def _number(text: str) -> Fraction | None:
    """Return the one number that a text is, in ordinary notation or in LaTeX, or `None`."""
    plain = parse_number(text)
    return latex_number(text) if plain is None else plain


def _has_digit(text: str) -> bool:
    return any(character.isnumeric() for character in text)


def _gold(answer: Any) -> Fraction:
    gold = _number(str(answer).rsplit("####", 1)[-1])  # the data's own answers end with "#### N"
    if gold is None:
        raise ValueError(f"the task's answer {answer!r} is not one number; name the field that holds the number")
    return gold

"""An environment for the procedural problems of reasoning-gym (arXiv:2505.24760), scored by their own verifiers.

The verifiers (`score_answer`) are guarded: some evaluate the answer as Python, and some accept wrong answers. The names
are those of the generators of reasoning-gym 0.1.25; a test looks for verifiers that evaluate an answer and are not
among them.
"""

from __future__ import annotations

import ast
import json
import math
import re
from fractions import Fraction
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.rewards.graders.expressions import NoExpression, check_expression, exact_value, may_be_antiderivative
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
        the answer. `gold_template` is the form in which a gold answer is declared, such as "Answer: {answer}".
        """
        self.partial_credit = partial_credit
        self.answer_pattern = None if answer_pattern is None else re.compile(answer_pattern)
        self.gold_template = gold_template
        self._generators: dict[str, Any] = {}

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the verifier's score of the answer; an answer that is missing or cannot be read scores 0.

        Raises KeyError for a task that is not reasoning-gym's.
        """
        del ground_truth
        answer = self.final_answer(completion)
        score = 0.0
        if answer is not None:
            info = completion.task.info
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
        answer = gold_answer(task.info["entry"])
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


def _generator_name(info: dict[str, Any]) -> str:
    """Return the name of the generator that made the entry: for a `composite`, the one that it chose."""
    if info["generator"] != "composite":
        return info["generator"]
    return info["entry"]["metadata"]["source_dataset"]


EVALUATE_LITERALS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Verifiers that call `eval` on an answer that is not the gold one; they never pay 1 for it."""
EVALUATE_EXPRESSIONS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Verifiers that pass the answer to sympy's `parse_expr`, which evaluates it as Python."""
_INTEGRALS = frozenset({"intermediate_integration", "simple_integration"})  # sympy's `simplify` of a wrong one may hang
_TREES = frozenset({"codeio"})  # compares objects as trees, in time proportional to the product of their sizes
_FRACTIONS = frozenset({"coin_flip"})  # passes the answer to Python's `Fraction`, which computes 1e999999999 in full
_LONGEST_LITERAL = 10_000  # characters
_LONGEST_TREE = 1_000  # characters that an answer may have beyond four times the gold answer's
_GOLDS = ("example_answer", "example_correct_answer", "possible_answer")  # metadata keys read where `answer` is null


def score_answer(dataset: Any, name: str, answer: str, entry: dict[str, Any]) -> float:
    """Return the verifier's score of an answer, or 0 for one that is unsafe to verify or that the verifier cannot read.

    `dataset` is a reasoning-gym generator, `name` its name, and `entry` the problem that it made. Raises what the
    verifier raises if it cannot score the entry's own answer either, and ValueError if a score is not finite.
    """
    if not _is_safe(name, answer, entry):
        return 0.0
    entry = _as_drawn(name, entry)
    try:
        score = float(dataset.score_answer(answer=answer, entry=entry))
    except Exception:
        # Some verifiers raise for what they cannot parse. That is the answer's fault if they can score the gold one.
        dataset.score_answer(answer=gold_answer(entry), entry=entry)
        return 0.0
    if not math.isfinite(score):
        raise ValueError(f"the verifier of {name} returned {score}")
    return score if score < 1.0 or _is_right(name, answer, entry) else 0.0


def gold_answer(entry: dict[str, Any]) -> str | None:
    """Return the entry's answer, else the example of one in its metadata, else `None`.

    An answer that is no text is returned as JSON.
    """
    metadata = entry.get("metadata") or {}
    found = (entry.get("answer"), *(metadata.get(key) for key in _GOLDS))
    gold = next((value for value in found if value is not None), None)
    if isinstance(gold, str) and "Integral(" in gold:
        return None  # sympy could not solve the generator's own problem and returned it; an answer like it is refused
    return gold if gold is None or isinstance(gold, str) else json.dumps(gold)


def _is_safe(name: str, answer: str, entry: dict[str, Any]) -> bool:
    if name in EVALUATE_LITERALS:
        return answer in (entry["answer"], *entry["metadata"].get("valid_answers", ())) or _is_literal(answer)
    if name in _TREES:
        return len(answer) <= 4 * len(entry["answer"]) + _LONGEST_TREE
    if name in EVALUATE_EXPRESSIONS or name in _FRACTIONS:
        try:
            check_expression(answer)
        except NoExpression:
            return False
    if name in _INTEGRALS:
        metadata = entry["metadata"]
        return may_be_antiderivative(answer, metadata["integrand"], metadata["variable"])
    return True


def _is_literal(text: str) -> bool:
    """Return whether a text is a Python literal of at most `_LONGEST_LITERAL` characters.

    Only its syntax tree tells: without any parenthesis a text can still run code (`[0 for a.b in [1]]`).
    """
    try:
        ast.literal_eval(text[: _LONGEST_LITERAL + 1])
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    return len(text) <= _LONGEST_LITERAL


def _is_right(name: str, answer: str, entry: dict[str, Any]) -> bool:
    """Return whether a full score is deserved, for the verifiers that do not check all that their question asks."""
    if name == "puzzle24":  # takes any four numbers, and 24.5 for 24
        used = sorted(int(number) for number in re.findall(r"\d+", answer))
        return exact_value(answer) == 24 and used == sorted(entry["metadata"]["numbers"])
    if name == "complex_arithmetic":  # takes "nan", whose distance to the gold number is not above 0
        return "nan" not in answer.lower()
    if name == "coin_flip":  # takes any prefix: 0 for 0.125
        value, gold = exact_value(answer), exact_value(entry["answer"])
        return value is not None and gold is not None and abs(value - gold) <= Fraction(1, 10_000)
    if name == "game_of_life_halting":  # takes the truth of a text, which is true unless the text is empty
        return answer.strip().lower() == str(entry["answer"]).strip().lower()
    return True


def _as_drawn(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entry as the generator made it: JSON has turned the tuples of its board into lists."""
    if name not in ("arc_agi", "rearc"):
        return entry
    metadata = entry["metadata"]
    return {**entry, "metadata": {**metadata, "output": tuple(map(tuple, metadata["output"]))}}

"""Between an answer and a reasoning-gym verifier: some evaluate the answer as Python, some accept too much.

The names are those of reasoning-gym 0.1.25; a test looks for verifiers that evaluate and are not among them.
"""

from __future__ import annotations

import ast
import json
import math
import re
from fractions import Fraction
from typing import Any

from rlft.graders.antiderivatives import may_be_antiderivative
from rlft.graders.expressions import NoExpression, check_expression, exact_value

EVALUATE_LITERALS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Verifiers that call `eval` on answers that are not the gold one, and pay less than 1 for what comes out."""
EVALUATE_EXPRESSIONS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Verifiers that give the answer to sympy, whose parser evaluates it."""
_INTEGRALS = frozenset({"intermediate_integration", "simple_integration"})  # sympy's `simplify` of a wrong one may hang
_TREES = frozenset({"codeio"})  # objects are compared as trees, which takes the product of their sizes
_FRACTIONS = frozenset({"coin_flip"})  # Python's `Fraction` takes 1e999999999 and computes it
_LONGEST_LITERAL = 10_000
_LONGEST_TREE = 1_000  # characters beyond four times the gold answer's
_GOLDS = ("example_answer", "example_correct_answer", "possible_answer")  # where `answer` is null


def score_answer(dataset: Any, name: str, answer: str, entry: dict[str, Any]) -> float:
    """The verifier's score of an answer that is safe to verify, and 0 for one that is not or that it cannot read.

    `name` is the generator's. Raises what the verifier raises where it cannot score the entry's own answer either.
    """
    if not _is_safe(name, answer, entry):
        return 0.0
    entry = _as_drawn(name, entry)
    try:
        score = float(dataset.score_answer(answer=answer, entry=entry))
    except Exception:
        # Some verifiers raise at what they cannot parse. That is the answer's fault if the entry itself is sound.
        dataset.score_answer(answer=gold_answer(entry), entry=entry)
        return 0.0
    if not math.isfinite(score):
        raise ValueError(f"the verifier of {name} returned {score}")
    return score if score < 1.0 or _is_right(name, answer, entry) else 0.0


def gold_answer(entry: dict[str, Any]) -> str | None:
    """The entry's answer, or where it names none, the example that its metadata have; `None` if there is neither."""
    metadata = entry.get("metadata") or {}
    found = (entry.get("answer"), *(metadata.get(key) for key in _GOLDS))
    gold = next((value for value in found if value is not None), None)
    if isinstance(gold, str) and "Integral(" in gold:
        return None  # the problem itself, not solved; as an answer it is refused
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
    """Whether a text is a literal by its syntax tree: brackets and names are enough for code (`[0 for a.b in [1]]`)."""
    try:
        ast.literal_eval(text[: _LONGEST_LITERAL + 1])
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    return len(text) <= _LONGEST_LITERAL


def _is_right(name: str, answer: str, entry: dict[str, Any]) -> bool:
    """Whether a full score is deserved, where the verifier leaves out a condition that its question states."""
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
    """The entry as the generator made it: stored as JSON it has lists where boards were tuples."""
    if name not in ("arc_agi", "rearc"):
        return entry
    metadata = entry["metadata"]
    return {**entry, "metadata": {**metadata, "output": tuple(map(tuple, metadata["output"]))}}

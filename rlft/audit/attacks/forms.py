"""Attempts in the right form without content, and with values on which comparisons and parsers break."""

from __future__ import annotations

from collections.abc import Callable

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known

_EVERY_FORM = (
    "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### \nAnswer: \nThe answer is .\n"
    "Sources: \n```python\n```\n```json\n{}\n```"
)


def _holds(value: str) -> Callable[[Known], str | None]:
    """Return an attacker that puts a value where the answer stands; not where gold is this value."""
    return lambda known: None if known.answer.strip().casefold() == value.casefold() else known.declare(value)


def _has_form(known: Known) -> bool:
    return any(each.strip() for each in known.form)


ATTACKS = (
    Attack("empty_form", "it has the form of gold and no answer in it", lambda known: known.declare(""), _has_form,
           says_nothing=True),
    Attack("unknown_in_form", "it says in gold's form that it does not know", _holds("I do not know"),
           says_nothing=True),
    Attack("every_form", "it has the signs of many forms and no answer", lambda known: _EVERY_FORM, says_nothing=True),
    Attack("nan", "NaN is no answer, and every comparison with it is false", _holds("nan"), says_nothing=True),
    Attack("infinity", "infinity is no answer", _holds("inf"), says_nothing=True),
    Attack("one_over_zero", "it has no value", _holds("1/0"), says_nothing=True),
    Attack("many_digits", "no task asks for a number of 5,000 digits", _holds("9" * 5000), says_nothing=True),
    Attack("hundreds_of_digits", "no task asks for a number of 400 digits, which is no float", _holds("9" * 400),
           says_nothing=True),
    Attack("broken_json", "it is cut off before any value", lambda known: '{"answer": [', says_nothing=True),
    Attack("deep_json", "it is nested so deeply that most parsers fail on it", lambda known: "[" * 20_000,
           says_nothing=True),
    Attack("empty_object", "it has no field", lambda known: "{}", says_nothing=True),
    Attack("empty_list", "it has no item", lambda known: "[]", says_nothing=True),
    Attack("null", "null is no answer", _holds("null"), says_nothing=True),
)  # fmt: skip

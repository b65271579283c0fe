"""Reads and makes the texts of golds: their form, JSON, programs and lists, other answers in the same form, scripts.

Another answer (`made_answer`) has its numbers, days and letters changed, and keeps signs and lengths.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rlft.files import each_key_once
from rlft.harness.scripted import Script
from rlft.rewards.graders.numbers import parse_number, read_date
from rlft.texts.syntax import parse
from rlft.types import ToolCall

_FENCE = re.compile(r"```[a-zA-Z0-9]*\n(.*?)```", re.DOTALL)
_BETWEEN = re.compile(r"[,;\n]")
_LONGEST_PROGRAM = 20_000  # characters
_SAYS_PROGRAM = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Return)


def shared_form(texts: Sequence[str]) -> tuple[str, str]:
    """Return what all texts begin and end with, up to the nearest signs that are no letters and digits.

    Both are empty for fewer than two different texts. `#### 12` and `#### 15` begin with `#### `.
    """
    if len(set(texts)) < 2:
        return "", ""
    begins = _beginning(texts)
    rest = [text[len(begins) :] for text in texts]
    ends = _beginning([text[::-1] for text in rest])[::-1]
    while begins and (begins[-1].isalnum() or begins[-1] in "-.,"):
        begins = begins[:-1]
    while ends and (ends[0].isalnum() or (ends[0] in "-.," and ends[1:2].isalnum())):
        ends = ends[1:]
    return begins, ends


def _beginning(texts: Sequence[str]) -> str:
    """Return what all texts begin with: what the first and the last of them in order share."""
    first, last = min(texts), max(texts)
    length = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None)
    return first if length is None else first[:length]


def as_json(text: str) -> Any:
    """Return the object or list that a text is as JSON; `None` for anything else, and where a key stands twice."""
    try:
        value = json.loads(text, object_pairs_hook=each_key_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def program_of(text: str) -> str | None:
    """Return the Python program that a text is, or holds in a fenced block; `None` if it is none."""
    found = _FENCE.search(text)
    code = found.group(1) if found else text
    if len(code) > _LONGEST_PROGRAM:
        return None
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    is_program = any(isinstance(node, _SAYS_PROGRAM) for node in tree.body) or called & {"print", "input"}
    return code if is_program else None


def defined_names(code: str) -> list[str]:
    """Return the names of the functions that a program defines at its top."""
    return [node.name for node in parse(code).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def items_of(text: str) -> tuple[str, ...] | None:
    """Return the items that a text lists, in order of the alphabet; `None` if it lists fewer than two.

    It lists them as JSON, or with a comma, a semicolon or a new line between them. Without JSON their case is no
    difference.
    """
    value = as_json(text)
    if isinstance(value, list):
        found = [json.dumps(each, sort_keys=True) for each in value]
    else:
        found = (
            [] if value is not None else [each for part in _BETWEEN.split(text) if (each := part.strip().casefold())]
        )
    return tuple(sorted(found)) if len(found) >= 2 else None


def plain(text: str) -> str:
    """Return a text without case, signs and white space, in which two ways to write one answer are equal."""
    return "".join(filter(str.isalnum, text.casefold()))


_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")
_YEAR = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])")
_NEAR = Fraction(1, 10)  # numbers that differ by less of the larger one may be equal to a tolerant reward
_NEAR_DAYS = 31  # and so may days that are no farther apart
_YEARS_LATER = 7
_CYCLES = ("aeiou", "bcdfghjklmnpqrstvwxyz")
_OTHER_LETTERS = str.maketrans(
    {
        letter: turned
        for cycle in (*_CYCLES, *map(str.upper, _CYCLES), "0123456789")
        for letter, turned in zip(cycle, cycle[1:] + cycle[0], strict=True)
    }
)
_LONGEST_DATE = 40


def made_answer(answer: str) -> str | None:
    """Return another answer in the form of this one; `None` where there is nothing to change.

    A number becomes three times as large, or a third where that keeps its length, with as many decimals; a day lies
    seven years later; of a JSON value and of any other text each letter becomes the next vowel or consonant.
    """
    if (day := day_of(answer)) is not None:
        return _later_year(answer, day)
    if len(_NUMBER.findall(answer)) == 1 and parse_number(answer) is not None:
        return _made_number(answer)
    value = as_json(answer)
    made = answer.translate(_OTHER_LETTERS) if value is None else json.dumps(_made(value), ensure_ascii=False)
    is_same = made == answer if value is None else _made(value) == value
    return None if is_same else made


def are_near(one: Any, two: Any) -> bool:
    """Return whether two answers are numbers that differ by less than a tenth of the larger one, or near days.

    Days are near that are at most a month apart.
    """
    texts = [str(each) for each in (one, two) if isinstance(each, str | int | float)]
    if len(texts) < 2:
        return False
    first, second = map(parse_number, texts)
    if first is not None and second is not None:
        return abs(first - second) < _NEAR * max(abs(first), abs(second))
    day, other = map(day_of, texts)
    return day is not None and other is not None and abs((day - other).days) <= _NEAR_DAYS


def position_of(text: str) -> Fraction | None:
    """Return the number that a text is, or of a day its number in the calendar; `None` for any other text."""
    if (number := parse_number(text)) is not None:
        return number
    return None if (day := day_of(text)) is None else Fraction(day.toordinal())


@lru_cache(maxsize=10_000)
def day_of(text: str) -> date | None:
    """Return the day that a text names; `None` for any other text, and quickly for one that is no date at a glance."""
    text = text.strip()
    if len(text) > _LONGEST_DATE or not any(map(str.isdecimal, text)) or parse_number(text) is not None:
        return None
    return read_date(text) if _YEAR.search(text) else None


def _made_number(answer: str) -> str | None:
    """Return the answer with its one number changed, and written with as many decimals."""
    [digits] = _NUMBER.findall(answer)
    decimals, number = len(digits.partition(".")[2]), Fraction(digits.replace(",", ""))
    written = f",.{decimals}f" if "," in digits else f".{decimals}f"
    said = [answer.replace(digits, format(float(new), written)) for new in (3 * number, number / 3, number + 7)]
    far = [text for text in said if text != answer and not are_near(text, answer)]
    return next((text for text in far if len(text) == len(answer)), far[0] if far else None)


def _later_year(answer: str, day: date) -> str | None:
    """Return the text with another year, for a day that stands in every year."""
    text, later = answer, day.year + _YEARS_LATER
    if (day.month, day.day) == (2, 29):
        later = day.year + 4 * _YEARS_LATER
    made = _YEAR.sub(str(later), text, count=1)
    return made if day_of(made) not in (None, day) else None


def _made(value: Any) -> Any:
    """Return a JSON value with other texts and numbers in the same places."""
    if isinstance(value, dict):
        return {key: _made(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_made(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 3 * value if value else 7
    return value.translate(_OTHER_LETTERS) if isinstance(value, str) else value


_TELLING = 3  # characters of an answer that is not in a form by chance


def calls_of(script: Script) -> list[ToolCall]:
    """Return the tool calls of a script, in order."""
    return [call for message in script for call in message.get("tool_calls") or ()]


def text_of(script: Script) -> str:
    """Return what a script says last; nothing if its last message calls a tool."""
    return "" if script[-1].get("tool_calls") else script[-1]["content"]


def said_answers(answer: Any) -> list[str]:
    """Return the texts that a task's answer may be said as: those of a list, or of a number, or the text itself."""
    found = answer if isinstance(answer, list) else [answer]
    texts = [str(each) for each in found if isinstance(each, str | int | float) and not isinstance(each, bool)]
    return [text for text in texts if text.strip()]


def form_of(text: str, shared: tuple[str, str], answer: Any) -> tuple[str, str]:
    """Return what stands before and behind the answer in a gold text.

    That is the form which all golds share, and what else stands around the task's answer where it is in the text once.
    """
    begins, ends = shared
    if any(len(each) >= _TELLING and plain(each) in plain(begins + ends) for each in said_answers(answer)):
        return "", ""  # what all golds share holds this answer, so that it is no empty form
    inner = text.removeprefix(begins).removesuffix(ends)
    found = [each for each in said_answers(answer) if each in inner]
    # Several texts of a list are the items of one answer, unless each is a longer way to say another.
    whole = {each for each in found if not any(each != other and each in other for other in found)}
    if len(whole) == 1 and as_json(text) is None and inner.count(each := whole.pop()) == 1:
        before, _, behind = inner.partition(each)
        return begins + before, behind + ends
    return begins, ends

"""Attempts that answer another task, or hold a piece of gold. They may be right by chance on some tasks."""

from __future__ import annotations

import re
from collections.abc import Callable

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.made import are_near, day_of, made_answer, position_of
from rlft.audit.attacks.scripts import text_of
from rlft.harness.scripted import Script

_LOOKALIKES = str.maketrans("aeopcxyiABEHKMOPCTX", "аеорсхуіАВЕНКМОРСТХ")  # noqa: RUF001 - Cyrillic on purpose
_CLASSES = frozenset({"true", "false", "none", "null"})
_AGAIN = "it answers another task"


def _most_common(place: int) -> Callable[[Known], Script | None]:
    def make(known: Known) -> Script | None:
        found = known.pool.golds[place : place + 1]
        given = known.pool.given[place] if found else None
        if not found or (given is not None and given == known.task.answer):
            return None
        return None if are_near(known.text, text_of(found[0])) or are_near(known.task.answer, given) else found[0]

    return make


def _other_gold(known: Known) -> Script | None:
    return None if known.rival is None or known.rival.is_made else known.rival.script


def _made(known: Known) -> str | None:
    if known.program is not None or (known.calls and not known.text_counts):
        return None
    return None if (made := made_answer(known.answer)) is None else known.declare(made)


def _farthest(known: Known) -> str | None:
    """Return the number or day of the golds that is farthest from gold, where all are near it."""
    if known.rival is None or not known.rival.is_made:
        return None
    place = position_of(known.answer)
    others = [
        (abs(each - place), text)
        for text in known.pool.answers
        if place is not None and (each := position_of(text)) is not None and each != place
    ]
    return known.declare(max(others)[1]) if others else None


def _certain_and_wrong(known: Known) -> str | None:
    if known.other is None:
        return None
    return f"{known.declare(known.other_answer)}\nI am certain of this, and I have verified it twice."


def _first_character(known: Known) -> str | None:
    answer = known.answer.strip()
    if len(answer) < 4 or answer.casefold() in _CLASSES or not answer[:2].isalnum():
        return None
    return known.declare(answer[0])


def _piece(place: int) -> Callable[[Known], str | None]:
    """Return an attacker that says one item of a list, or one of three words or more: that at `place`."""

    def make(known: Known) -> str | None:
        items = [item.strip() for item in re.split(r"[,;\n]", known.answer) if item.strip()]
        words = known.answer.split()
        if len(items) >= 2:
            return known.declare(items[place])
        return known.declare(words[place]) if len(words) >= 3 else None

    return make


def _third_replaced(known: Known) -> str | None:
    """Return the answer with the letters of its middle third replaced."""
    answer = known.answer
    if len(answer) < 4 or known.number is not None:
        return None
    begin, end = len(answer) // 3, 2 * len(answer) // 3 + 1
    middle = re.sub(r"\w", "x", answer[begin:end])
    return known.declare(answer[:begin] + middle + answer[end:])


def _lookalike(known: Known) -> str | None:
    if known.number is not None or day_of(known.answer) is not None:
        return None  # letters beside a number are its unit, and those of a month may be read generously
    replaced = known.answer.translate(_LOOKALIKES)
    return known.declare(replaced) if replaced != known.answer else None


def _is_short(known: Known) -> bool:
    return known.short


FIRST = (
    Attack("other_gold", _AGAIN, _other_gold, certain=False),
    Attack(
        "most_common",
        "it is the most frequent gold, whatever is asked",
        _most_common(0),
        certain=False,
        is_constant=True,
    ),
)
"""These are tried on every task that is audited."""
ATTACKS = (
    Attack("made_answer", "it is made up in gold's form", _made, certain=False),
    Attack("farthest_gold", "it is the gold that is farthest away, though all are alike", _farthest, certain=False),
    Attack(
        "second_most_common",
        "it is a frequent gold, whatever is asked",
        _most_common(1),
        certain=False,
        is_constant=True,
    ),
    Attack("certain_and_wrong", f"{_AGAIN}, and says that it is sure", _certain_and_wrong, certain=False),
    Attack("first_character", "a character is not the answer", _first_character, _is_short, certain=False),
    Attack("first_piece", "a piece is not the answer", _piece(0), _is_short, certain=False, counts="full"),
    Attack("last_piece", "a piece is not the answer", _piece(-1), _is_short, certain=False, counts="full"),
    Attack("third_replaced", "a third of it is nonsense", _third_replaced, _is_short, certain=False, counts="full"),
    Attack("lookalike", "its letters only look alike", _lookalike, _is_short, certain=False, counts="full"),
)

"""Attempts that answer wrongly: another task's answer, a piece of gold, nearly gold, or its words with another meaning.

Those of `OTHERS` may be right by chance on some tasks. Those of `NEAR` are a number or a day that is somewhat off,
another sign, another unit: how far off an answer may be is for whoever owns the reward to say. So an attempt that is a
little off fails no reward; the audit says how far off the farthest one is that is paid like gold. A wrong sign or unit
is no matter of tolerance. Those of `SENTENCES` are for tasks whose gold is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

from rlft.audit.attacks.attack import Attack, Known
from rlft.audit.attacks.texts import are_near, day_of, made_answer, position_of, text_of, with_number
from rlft.graders.numbers import parse_number
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
OTHERS = (
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


_LEAST = 400  # from which number on 40 more is little
_UNIT = re.compile(r"[0-9]\s*([a-zA-Zµ°/²³]+)\.?$")
_OTHER_UNITS = {
    "km": "mm", "m": "km", "cm": "km", "mm": "km", "kg": "mg", "g": "kg", "mg": "kg", "t": "g", "h": "s", "s": "h",
    "min": "h", "ms": "h", "l": "ml", "ml": "l", "km/h": "m/s", "m/s": "km/h", "hours": "seconds", "seconds": "hours",
    "minutes": "days", "days": "years", "years": "days", "metres": "kilometres", "meters": "kilometers",
    "kilometres": "metres", "kilometers": "meters", "grams": "kilograms", "kilograms": "grams",
}  # fmt: skip


def _declared(known: Known, changed: str | None) -> str | None:
    return None if changed is None or not known.short else known.declare(changed)


def _times(factor: Fraction) -> Callable[[Known], str | None]:
    return lambda known: _declared(known, with_number(known.answer, lambda number: number * factor))


def _more(by: int, least: int = 0) -> Callable[[Known], str | None]:
    """Return an attacker that adds a whole number to a gold that is one, from `least` on."""

    def make(known: Known) -> str | None:
        number = known.number
        if number is None or number.denominator != 1 or abs(number) < least:
            return None
        return _declared(known, with_number(known.answer, lambda each: each + by))

    return make


def _later(days: int) -> Callable[[Known], str | None]:
    def make(known: Known) -> str | None:
        day = day_of(known.answer)
        try:
            return None if day is None else _declared(known, (day + timedelta(days=days)).isoformat())
        except OverflowError:
            return None

    return make


def _wrong_sign(known: Known) -> str | None:
    """Return the number with the other sign; not where the sign stands apart from it, or there is none to change."""
    answer = known.answer.strip()
    if not known.number or not re.fullmatch(r"-?[0-9].*", answer):
        return None
    return _declared(known, answer[1:] if answer.startswith("-") else f"-{answer}")


def _other_unit(known: Known) -> str | None:
    """Return the number in another unit. The unit may stand in the form that all golds share."""
    begins, ends = known.form
    answer = (known.answer + ends).strip()
    found = _UNIT.search(answer)
    if not known.short or found is None or parse_number(answer) is None or (unit := _OTHER_UNITS.get(found[1])) is None:
        return None
    return f"{begins}{answer[: found.start(1)]}{unit}{answer[found.end(1) :]}"


def _near(name: str, why: str, make: Callable[[Known], str | None]) -> Attack:
    return Attack(name, why, make, certain=False, counts="tolerance")


NUMBERS = (
    _near("number_1_percent", "a number 1 % above gold", _times(Fraction(101, 100))),
    _near("number_one_more", "a number that is gold plus 1", _more(1)),
    _near("number_40_more", "a number that is gold plus 40", _more(40, _LEAST)),
    _near("number_10_percent", "a number 10 % above gold", _times(Fraction(11, 10))),
    _near("number_40_percent", "a number 40 % above gold", _times(Fraction(14, 10))),
)
"""Numbers that are off, the least first."""
DAYS = (
    _near("day_later", "the day after gold", _later(1)),
    _near("month_later", "a day 30 days after gold", _later(30)),
    _near("hundred_days_later", "a day 100 days after gold", _later(100)),
)
"""Days that are off, the least first."""
NEAR = (
    *NUMBERS,
    *DAYS,
    Attack("wrong_sign", "it has the other sign", _wrong_sign, certain=False),
    Attack("other_unit", "it has another unit", _other_unit, certain=False),
)


_LEAST_WORDS = 5
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|could|must|should|may|might|does|do|did)\b(?P<no> not\b)?"
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+\b")  # within a sentence, behind a word that is no end of another
_STRANGERS = ("Zoltan", "Quimby", "Ixchel", "Vashti", "Jorund", "Wulfric")


def _is_sentence(known: Known) -> bool:
    return known.value is None and known.program is None and len(known.answer.split()) >= _LEAST_WORDS


def _negated(known: Known) -> str | None:
    """Return the sentence with "not" behind its first auxiliary verb, or without the one that stands there."""
    found = _VERB.search(known.answer)
    if found is None:
        return None
    denied = found[0].removesuffix(" not") if found["no"] else f"{found[0]} not"
    return known.declare(known.answer[: found.start()] + denied + known.answer[found.end() :])


def _names(known: Known) -> list[str]:
    return list(dict.fromkeys(_NAME.findall(known.answer)))


def _replaced(known: Known, names: dict[str, str]) -> str:
    return known.declare(_NAME.sub(lambda found: names.get(found[0], found[0]), known.answer))


def _other_names(known: Known) -> str | None:
    names = _names(known)
    strangers = [name for name in _STRANGERS if name not in known.answer]
    if not names or len(strangers) < 2:
        return None
    return _replaced(known, {name: strangers[place % len(strangers)] for place, name in enumerate(names)})


def _names_swapped(known: Known) -> str | None:
    names = _names(known)
    return _replaced(known, {names[0]: names[1], names[1]: names[0]}) if len(names) >= 2 else None


SENTENCES = (
    Attack("negated_inside", "it denies what gold says", _negated, _is_sentence, certain=False, counts="full"),
    Attack("other_names", "its names are others", _other_names, _is_sentence, certain=False, counts="full"),
    Attack("names_swapped", "two names have changed places", _names_swapped, _is_sentence, certain=False,
           counts="never", asks="does it not matter who is who?"),
)  # fmt: skip

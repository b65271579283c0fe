"""Attempts that answer wrongly: another task's answer, a piece of gold, nearly gold, or its words with another meaning.

How far off a number or a day may be is for whoever owns the reward to say, so that an attempt which is a little off
(`NUMBERS`, `DAYS`) fails no reward; the audit says how far off the farthest one is that is paid like gold. A wrong sign
or unit is no matter of tolerance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

from rlft.harness.scripted import Script
from rlft.rewards.audit.attacks.base import Attack, Known
from rlft.rewards.audit.attacks.texts import are_near, day_of, made_answer, position_of, text_of, with_number
from rlft.rewards.graders.numbers import parse_number

_CLASSES = frozenset({"true", "false", "none", "null"})
_LEAST_WORDS = 5  # of a sentence
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|could|must|should|may|might|does|do|did)\b(?P<no> not\b)?"
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+\b")  # within a sentence, behind a word that is no end of another
_STRANGERS = ("Zoltan", "Quimby", "Ixchel", "Vashti", "Jorund", "Wulfric")
_UNIT = re.compile(r"[0-9]\s*([a-zA-Zµ°/²³]+)\.?$")
_OTHER_UNITS = {
    "km": "mm", "m": "km", "cm": "km", "mm": "km", "kg": "mg", "g": "kg", "mg": "kg", "t": "g", "h": "s", "s": "h",
    "min": "h", "ms": "h", "l": "ml", "ml": "l", "km/h": "m/s", "m/s": "km/h", "hours": "seconds", "seconds": "hours",
    "minutes": "days", "days": "years", "years": "days", "metres": "kilometres", "meters": "kilometers",
    "kilometres": "metres", "kilometers": "meters", "grams": "kilograms", "kilograms": "grams",
}  # fmt: skip


def _most_common(known: Known) -> Script | None:
    given = known.pool.given[0] if known.pool.golds else None
    if not known.pool.golds or (given is not None and given == known.task.answer):
        return None
    found = known.pool.golds[0]
    return None if are_near(known.text, text_of(found)) or are_near(known.task.answer, given) else found


def _other_gold(known: Known) -> Script | None:
    return None if known.rival is None or known.rival.is_made else known.rival.script


def _made(known: Known) -> str | None:
    if known.program is not None or (known.calls and not known.text_counts):
        return None
    return None if (made := made_answer(known.answer)) is None else known.declare(made)


def _farthest(known: Known) -> str | None:
    """Return the number or day of the golds that is farthest from gold, where all are near it."""
    place = position_of(known.answer)
    if place is None or known.rival is None or not known.rival.is_made:
        return None
    others = [(abs(at - place), text) for text in known.pool.answers if (at := position_of(text)) not in (None, place)]
    return known.declare(max(others)[1]) if others else None


def _first_character(known: Known) -> str | None:
    answer = known.answer.strip()
    is_word = len(answer) >= 4 and answer[:2].isalnum() and answer.casefold() not in _CLASSES
    return known.declare(answer[0]) if is_word else None


def _last_piece(known: Known) -> str | None:
    """Return the last item of a list, or the last one of three words or more."""
    items = [item.strip() for item in re.split(r"[,;\n]", known.answer) if item.strip()]
    words = known.answer.split()
    if len(items) >= 2:
        return known.declare(items[-1])
    return known.declare(words[-1]) if len(words) >= 3 else None


def _third_replaced(known: Known) -> str | None:
    """Return the answer with the letters of its middle third replaced."""
    answer = known.answer
    if len(answer) < 4 or known.number is not None:
        return None
    begin, end = len(answer) // 3, 2 * len(answer) // 3 + 1
    return known.declare(answer[:begin] + re.sub(r"\w", "x", answer[begin:end]) + answer[end:])


def _is_short(known: Known) -> bool:
    return known.short


def _wrong_sign(known: Known) -> str | None:
    """Return the number with the other sign; not where the sign stands apart from it, or there is none to change."""
    answer = known.answer.strip()
    if not known.number or not re.fullmatch(r"-?[0-9].*", answer):
        return None
    return known.declare(answer[1:] if answer.startswith("-") else f"-{answer}")


def _other_unit(known: Known) -> str | None:
    """Return the number in another unit. The unit may stand in the form that all golds share."""
    begins, ends = known.form
    answer = (known.answer + ends).strip()
    found = _UNIT.search(answer)
    if found is None or parse_number(answer) is None or (unit := _OTHER_UNITS.get(found[1])) is None:
        return None
    return f"{begins}{answer[: found.start(1)]}{unit}{answer[found.end(1) :]}"


def _is_sentence(known: Known) -> bool:
    return known.value is None and known.program is None and len(known.answer.split()) >= _LEAST_WORDS


def _negated(known: Known) -> str | None:
    """Return the sentence with "not" behind its first auxiliary verb, or without the one that stands there."""
    found = _VERB.search(known.answer)
    if found is None:
        return None
    denied = found[0].removesuffix(" not") if found["no"] else f"{found[0]} not"
    return known.declare(known.answer[: found.start()] + denied + known.answer[found.end() :])


def _other_names(known: Known) -> str | None:
    names = list(dict.fromkeys(_NAME.findall(known.answer)))
    strangers = [name for name in _STRANGERS if name not in known.answer]
    if not names or len(strangers) < 2:
        return None
    turned = {name: strangers[place % len(strangers)] for place, name in enumerate(names)}
    return known.declare(_NAME.sub(lambda found: turned[found[0]], known.answer))


def _near(name: str, why: str, change: Callable[[Fraction], Fraction]) -> Attack:
    """Return the kind that changes gold's number."""

    def make(known: Known) -> str | None:
        changed = with_number(known.answer, change)
        return None if changed is None else known.declare(changed)

    return Attack(name, why, make, _is_short, certain=False, counts="tolerance")


def _one_more(number: Fraction) -> Fraction:
    return number + 1 if number.denominator == 1 else number


def _month_later(known: Known) -> str | None:
    day = day_of(known.answer)
    return None if day is None or day.year > 9998 else known.declare((day + timedelta(days=30)).isoformat())


NUMBERS = (
    _near("number_one_more", "a number that is gold plus 1", _one_more),
    _near("number_10_percent", "a number 10 % above gold", lambda number: number * Fraction(11, 10)),
    _near("number_40_percent", "a number 40 % above gold", lambda number: number * Fraction(14, 10)),
)
"""Numbers that are off, the least first."""
DAYS = (
    Attack("month_later", "a day 30 days after gold", _month_later, _is_short, certain=False, counts="tolerance"),
)  # fmt: skip
"""Days that are off, the least first."""
ATTACKS = (
    Attack("other_gold", "it answers another task", _other_gold, certain=False, everywhere=True),
    Attack("most_common", "it is the most frequent gold, whatever is asked", _most_common, certain=False,
           is_constant=True, everywhere=True),
    Attack("made_answer", "it is made up in gold's form", _made, certain=False),
    Attack("farthest_gold", "it is the gold that is farthest away, though all are alike", _farthest, certain=False),
    Attack("first_character", "a character is not the answer", _first_character, _is_short, certain=False),
    Attack("last_piece", "a piece is not the answer", _last_piece, _is_short, certain=False, counts="full"),
    Attack("third_replaced", "a third of it is nonsense", _third_replaced, _is_short, certain=False, counts="full"),
    *NUMBERS,
    *DAYS,
    Attack("wrong_sign", "it has the other sign", _wrong_sign, _is_short, certain=False),
    Attack("other_unit", "it has another unit", _other_unit, _is_short, certain=False),
    Attack("negated_inside", "it denies what gold says", _negated, _is_sentence, certain=False, counts="full"),
    Attack("other_names", "its names are others", _other_names, _is_sentence, certain=False, counts="full"),
)  # fmt: skip

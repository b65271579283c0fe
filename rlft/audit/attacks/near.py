"""Attempts that are nearly gold: a number or a day that is somewhat off, another sign, another unit.

How far off an answer may be is for whoever owns the reward to say. So an attempt that is a little off fails no reward;
the audit says how far off the farthest one is that is paid like gold. A wrong sign or unit is no matter of tolerance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.made import day_of, with_number
from rlft.graders.numbers import parse_number

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
ATTACKS = (
    *NUMBERS,
    *DAYS,
    Attack("wrong_sign", "it has the other sign", _wrong_sign, certain=False),
    Attack("other_unit", "it has another unit", _other_unit, certain=False),
)

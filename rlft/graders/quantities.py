"""Reads a number with its unit, and converts it to another unit."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Any

from rlft.graders.numbers import LONGEST_NUMBER, parse_number

_QUANTITY = re.compile(r"(?P<number>[^a-zA-Zµμ°%Ω]+(?:[eE][+-]?[0-9]{1,2})?)\s*(?P<unit>[a-zA-Zµμ°%Ω].*)", re.DOTALL)
_UNIT = re.compile(
    r"[a-zA-Zµμ°%Ω_ ]{1,24}(?:(?:\^|\*\*)-?[1-9]|[²³])?(?:[*/·][a-zA-Zµμ°Ω_ ]{1,24}(?:\^-?[1-9]|[²³])?){0,3}"
)
_SIGNS = {"²": "^2", "³": "^3", "·": "*", "μ": "µ"}


def check_unit(unit: str) -> str:
    """Return the unit. Raises ValueError for one that is not known."""
    if _unit(unit) is None:
        raise ValueError(f"{unit!r:.40} is no known unit; write kg, km/h, degC, m^2, or leave `unit` out")
    return unit


def read_quantity(text: str, unit: str | None) -> float | None:
    """Return the number that a text is, in `unit`; `None` if it is none, or of another kind of unit, or of none.

    Without a `unit` the text is a number as `rlft.graders.numbers.parse_number` reads it, whose unit is not looked at.
    With one, "3 km", "3000 m" and "3,000 metres" are the same in metres, and a number without a unit is taken to be in
    it. The number may have an exponent ("3e3") then. Time is bounded: longer than `LONGEST_NUMBER` is not read.
    """
    text = text.strip().strip("*`").strip().removesuffix(".")
    if not text or len(text) > LONGEST_NUMBER:
        return None
    if unit is None:
        number = parse_number(text)
        return None if number is None else float(number)
    if (plain := _number(text)) is not None:
        return plain
    match = _QUANTITY.fullmatch(text)
    if match is None or (value := _number(match["number"])) is None:
        return None
    return _converted(value, _unit(match["unit"].strip()), _unit(unit))


def _converted(number: float, given: Any, wanted: Any) -> float | None:
    if given is None or wanted is None:
        return None
    try:
        value = float(_registry().Quantity(number, given).to(wanted).magnitude)
    except Exception:  # pint's errors of dimension and of offset units have no class in common
        return None
    return value if math.isfinite(value) else None


def _number(text: str) -> float | None:
    """Return a number without any unit, as a decimal, a fraction, or with an exponent; else `None`."""
    if re.fullmatch(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?[eE][+-]?[0-9]{1,2}", text.strip()):
        return float(text)
    if re.search(r"[^\W\d_½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]|[%°]", text):
        return None
    number = parse_number(text)
    return None if number is None else float(number)


@lru_cache(maxsize=256)
def _unit(unit: str) -> Any:
    """Return pint's unit for a text, or `None`. Only the form of a unit is passed on: pint would compute 9**9**9."""
    if not _UNIT.fullmatch(unit):
        return None
    for sign, written in _SIGNS.items():
        unit = unit.replace(sign, written)
    try:
        return _registry().parse_units(unit)
    except Exception:  # an unknown unit, or one that pint cannot parse: its errors have no class in common
        return None


@cache
def _registry() -> Any:
    import pint  # takes more than a second, which only a unit needs

    return pint.UnitRegistry(cache_folder=None)

"""Finds the provinces of Afghanistan that a text names, in any spelling, and whether it says when it was written."""

from __future__ import annotations

import re
from typing import Literal, get_args

Province = Literal[
    "badakhshan", "badghis", "baghlan", "balkh", "bamyan", "day_kundi", "farah", "faryab", "ghazni", "ghor", "helmand",
    "herat", "jowzjan", "kabul", "kandahar", "kapisa", "khost", "kunar", "kunduz", "laghman", "logar", "nangarhar",
    "nimroz", "nuristan", "paktya", "paktika", "panjshir", "parwan", "samangan", "sar_e_pul", "takhar", "uruzgan",
    "wardak", "zabul",
]  # fmt: skip
PROVINCES: tuple[Province, ...] = get_args(Province)

# Patterns for names that are written in more than one way. `-?` stands for `_BETWEEN`: at most two signs or spaces.
_SPELLINGS = {
    "badakhshan": "badakh?shan",
    "badghis": "bad-?ghis",
    "bamyan": "bami?yan|bamian",
    "day_kundi": "da[iy]-?kundi",
    "ghazni": "ghazni|ghanzi",
    "ghor": "ghow?r",
    "helmand": "h[ei]lmand",
    "herat": "h[ei]rat",
    "jowzjan": "j[ao]w?zjan",
    "kandahar": "[kq]andahar",
    "khost": "kh[ow]+st",
    "kunar": "k[ou]nar",
    "kunduz": "[kq][ou]nd[ou]z",
    "logar": "low?gar",
    "nangarhar": "nangarhar|nangahar|nagarhar|ningarhar",
    "nimroz": "nimr[ou]z",
    "nuristan": "nuristan|nooristan",
    "paktya": "pakt(?:iy|i|y)a",
    "panjshir": "panj-?sh[ei]r",
    "sar_e_pul": "sar-?(?:[ei]-?)?p[ou]l",
    "uruzgan": "[ou]r[uo]zgan",
    "wardak": "[wv]ardak|wardag",
    "zabul": "zab[uo]l",
}
_BETWEEN = r"[\W_]{0,2}"
_NAMES = {
    name: re.compile(rf"(?<![^\W_])(?:{_SPELLINGS.get(name, name).replace('-?', _BETWEEN)})(?![^\W_])", re.IGNORECASE)
    for name in PROVINCES
}
_HEADQUARTERS = re.compile(r"kabul,?\s+afghanistan", re.IGNORECASE)  # where releases are written, not of what they tell
_YEAR = re.compile(r"(?<!\d)20(?:09|1[0-4])(?!\d)")
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = re.compile(rf"\b(?:{_MONTH}\.?\s*\d{{1,2}}|\d{{1,2}}\s+{_MONTH})\b", re.IGNORECASE)


def named_provinces(text: str) -> tuple[Province, ...]:
    """Return the provinces that a text names in any spelling, in the order of `PROVINCES`.

    The dateline "KABUL, Afghanistan" does not name Kabul.
    """
    told = _HEADQUARTERS.sub(" ", text)
    return tuple(name for name in PROVINCES if _NAMES[name].search(told))


def is_dated(text: str) -> bool:
    """Return whether a text holds a year from 2009 to 2014 and a day of a month, so that a date can be read from it."""
    return bool(_YEAR.search(text) and _DAY.search(text))

"""Whether texts that a criterion names stand in an attempt: as they are, or as a person reads them, for penalties."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from rlft.characters import apart, nfkc
from rlft.graders.plain import normal, plain, seen, spelt_out, unhyphenated
from rlft.specification.attempt import Attempt
from rlft.specification.reading import empty_gold, gold_of
from rlft.specification.templates import value_of

_NUMBER = re.compile(  # with its sign; neither a date such as 5.3.2024 or 5/3/2024 nor a list such as 1,3,5 is one
    r"(?<![\d.,/])(?:(?<!\w)[-\u2212\u2013])?(?:\d{1,3}/\d{1,3}|(?:\d{1,3}(?:,\d{3})+|\d+|(?<!\w)(?=\.\d))(?:\.\d+)?)"
    r"(?!\d|[.,/]\d)"
)
# Apostrophes, and half-width kana.
_SAME = dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'") | {each: nfkc(chr(each)) for each in range(0xFF66, 0xFFA0)}


class Wanting(Protocol):
    """How texts are looked for."""

    @property
    def ignore_case(self) -> bool:
        """Whether letters in upper and lower case are the same."""
        ...

    @property
    def whole_words(self) -> bool:
        """Whether only whole words count."""
        ...


def expanded(templates: Sequence[str], attempt: Attempt) -> list[str]:
    """Return the filled templates, with lists taken apart; null and empty texts ask for nothing."""
    values = [value_of(each, attempt) for each in templates]
    items = [item for value in values for item in (value if isinstance(value, list) else [value]) if item is not None]
    return list(dict.fromkeys(filter(str.strip, map(plain, items))))


def found_in(wanted: Sequence[str], text: str, wanting: Wanting, *, as_seen: bool) -> list[str]:
    """Return those of the wanted texts that stand in a text, or, `as_seen`, that a person reads there."""

    def within(form: Callable[[str], str]) -> list[str]:
        def compared(text: str) -> str:
            known = {"ignore_case": wanting.ignore_case, "ignore_space": True}
            return normal(apart(form(text).translate(_SAME)), **known)

        whole = compared(text)
        cut = {at for match in _NUMBER.finditer(whole) for at in range(match.start() + 1, match.end())}
        return [each for each in wanted if _stands(compared(each), whole, cut if wanting.whole_words else None)]

    there = set(within(str))
    if as_seen:
        there.update(within(seen), within(lambda each: unhyphenated(seen(each))), _spelt(wanted, text, wanting))
    return [each for each in wanted if each in there]


def _spelt(wanted: Sequence[str], text: str, wanting: Wanting) -> list[str]:
    """Return those of the wanted texts, of two letters and more, that a text spells out letter by letter."""

    def together(text: str) -> str:
        letters = "".join(filter(str.isalnum, seen(text)))
        return letters.casefold() if wanting.ignore_case else letters

    spelt = [together(each) for each in spelt_out(seen(text))]
    return [each for each in wanted if len(word := together(each)) > 1 and any(word in one for one in spelt)]


def check_asks_for_nothing(templates: Sequence[str], attempt: Attempt) -> None:
    """Raise TaskError unless one of the templates is a list without items, which asks for nothing on purpose."""
    if not any(isinstance(value_of(each, attempt), list) for each in templates):
        for each in templates:
            gold_of(each, None, attempt)
        raise empty_gold(templates[0])


def forms(text: str) -> list[str]:
    """Return a text as it is, as a person sees it, and so without hyphens within words."""
    return list(dict.fromkeys([text, seen(text), unhyphenated(seen(text))]))


def readings(text: str, wanted: str, *, as_seen: bool, fold: bool = False) -> list[tuple[str, str]]:
    """Return the ways to read two texts that are compared: as they are, and as a person sees them if asked.

    `fold` lets case count for nothing in what a person sees.
    """
    pairs = [(text, wanted)]
    if as_seen:
        read, other = seen(text), seen(wanted)
        read, other = (read.casefold(), other.casefold()) if fold else (read, other)
        pairs += [(read, other), (unhyphenated(read), unhyphenated(other))] if other.strip() else []
    return list(dict.fromkeys(pairs))


def _stands(wanted: str, text: str, numbers: Collection[int] | None) -> bool:
    """Return whether a text holds another one, which is not empty.

    Given the places inside its `numbers`, no part of a word or of a number counts.
    """
    place = text.find(wanted) if wanted else -1
    while place >= 0:
        end = place + len(wanted)
        before, after = text[max(place - 1, 0) : place], text[end : end + 1]
        if numbers is None:
            return True
        begins_inside = wanted[0].isalnum() and (before.isalnum() or place in numbers)
        if not begins_inside and not (wanted[-1].isalnum() and (after.isalnum() or end in numbers)):
            return True
        place = text.find(wanted, place + 1)
    return False

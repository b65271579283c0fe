"""Takes texts apart into the words that are compared, and words into runs of some number of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rlft.lookalikes import as_seen
from rlft.nfkc import nfkc
from rlft.scripts import apart

SIGNS = frozenset("+-*/%^=<>")
_APOSTROPHES = frozenset("'\u2019\u2018\u02bc\u0060")
_JOINING = re.compile(r"(?<=[^\W\d_])[-/](?=[^\W\d_])")  # a hyphen or a slash between two letters is no arithmetic
_POINT = re.compile(r"(?<=\d)\.(?=\d)")


class _Parts(dict[int, str]):
    """Maps characters to what they are in words: themselves, nothing, a space, or a word of their own."""

    def __missing__(self, code: int) -> str:
        self[code] = part = _part(chr(code))
        return part


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared, in a time that grows with its length.

    The text is brought into NFKC and case-folded, without what nobody sees, such as a space of no width, and with Latin
    letters for those of other scripts that look like them. A word is a run of letters, digits and combining marks; a
    point between two digits belongs to it, so that 1.5 is one word. Apostrophes are left out ("don't" is `dont`). All
    other punctuation, symbols and white space only separate words, but for the signs of arithmetic: `+ - * / % ^ = < >`
    and other mathematical symbols (category Sm) are words of their own, as sums would all be the same without them. A
    hyphen or slash between two letters is punctuation. A letter of a script without spaces is a word of its own
    (`rlft.scripts.apart`).
    """
    plain = _JOINING.sub(" ", apart(as_seen(nfkc(text).casefold())).replace("_", " "))
    return _POINT.sub("_", plain).translate(_Parts()).split()


def _part(character: str) -> str:
    """Return what stands for a character of a normalised text, in which `_` is a point between two digits."""
    kind = unicodedata.category(character)
    if character == "_":
        return "."
    if character in _APOSTROPHES:
        return ""
    if character in SIGNS or kind == "Sm":
        return f" {character} "
    return character if kind[0] in "LNM" else " "


def runs(words: Sequence[str], length: int) -> list[int]:
    """Return the hashes of all runs of `length` words, by the place at which they begin; none if there are fewer words.

    Hashes are Python's, which differ from process to process: who finds two equal ones compares the words.
    """
    return [hash(tuple(words[place : place + length])) for place in range(len(words) - length + 1)]

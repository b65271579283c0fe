"""Characters that nobody sees, and letters of other scripts that look like Latin ones, as they are compared."""

from __future__ import annotations

import unicodedata

# Beside the format characters (category Cf) those that fonts show nothing for: Default_Ignorable_Code_Point of Unicode.
_UNSEEN = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810),
                     *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)})  # fmt: skip
# Small letters of Cyrillic, Greek, Armenian and Latin itself, after confusables.txt of
# Unicode Technical Standard 39. Where the capital alone looks alike, the small letter stands for it.
_LETTERS = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0475\u04bb\u04cf\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b3\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    "\u0570\u0578\u057d\u0585\u0131\u0251\u0261\u0269",
    "abekmhopctyxsijvhldqwabyezhikmvoptuxwhnuoiagi",
)


class _Folded(dict[int, str]):
    """Maps characters of a text to what is compared of them: themselves, a Latin letter, or nothing."""

    def __missing__(self, code: int) -> str:
        unseen = code in _UNSEEN or unicodedata.category(chr(code)) == "Cf"
        self[code] = part = "" if unseen else _letter(chr(code))
        return part


def _letter(character: str) -> str:
    small = character.lower()
    if len(small) != 1 or (latin := _LETTERS.get(ord(small))) is None:
        return character
    return chr(latin) if small == character else chr(latin).upper()


_FOLDED = _Folded()


def as_seen(text: str) -> str:
    """Return a text without what nobody sees, and with Latin letters for those that look like them.

    Of text that is compared whatever its case, case-fold it first.
    """
    return text if text.isascii() else text.translate(_FOLDED)

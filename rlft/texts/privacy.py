"""Masks personal data that shows by its form: addresses of mail, telephone numbers, numbers of cards and accounts.

The forms are those of Microsoft's Presidio, with its checks of digits and lengths, and a few that it lacks. Names of
people and places show by no form, so they stay: Presidio finds them with a language model, which is not a part of rlft.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, partial
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal, get_args

Personal = Literal[
    "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "IP_ADDRESS", "MAC_ADDRESS", "US_SSN", "CRYPTO"
]
"""The kinds that are found, by Presidio's names."""
PERSONAL: tuple[Personal, ...] = get_args(Personal)
LONGEST = 1 << 16
"""Characters of a text that is masked of a client's: telephone numbers alone take seconds for so many."""
# Presidio's scores: what its weakest forms find (any nine digits in a row) stays below, a telephone number has 0.4.
_LEAST_SCORE = 0.35
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 255  # characters of an address of mail before and behind the @ (RFC 5321)
# Top-level domains of networks of one's own: those of RFC 6762 (appendix G).
_PRIVATE = frozenset({"local", "intranet", "internal", "private", "corp", "home", "lan"})
_SIGN = re.compile(r"%40|.", re.DOTALL)  # an @ in a web address is written %40
# Underscores around a word are Markdown's, but those within an address of mail are its own.
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9_.+-])_+|(?<!_)_++(?!\.?[A-Za-z0-9@+-])")
_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)


class Masker:
    """Puts `<EMAIL_ADDRESS>` in the place of an address, and so on for all `kinds`, and counts what it has masked.

    Without kinds it changes nothing, and Presidio is not imported, which takes seconds.
    """

    def __init__(self, kinds: Iterable[Personal] = PERSONAL) -> None:
        self.kinds = tuple(sorted(set(kinds)))
        self._recognizers = _recognizers(self.kinds)
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """Return the text with all that is found masked. Where two findings overlap the surer one, else the longer."""
        plain, places = _as_compared(text) if self._recognizers else ("", None)
        found = [each for recognizer in self._recognizers for each in recognizer.analyze(plain, self.kinds, None)]
        found = [each for each in found if each.score >= _LEAST_SCORE]
        if places is not None:
            for each in found:
                each.start, each.end = places[each.start], places[each.end - 1] + 1
        found.sort(key=lambda each: (-each.score, each.start - each.end, each.start, each.entity_type))
        masked, taken = bytearray(len(text)), list[Any]()
        for each in found:
            if not any(masked[each.start : each.end]):
                masked[each.start : each.end] = b"\1" * (each.end - each.start)
                taken.append(each)
        kept, end = list[str](), 0
        for each in sorted(taken, key=lambda each: each.start):
            kept += [text[end : each.start], f"<{each.entity_type}>"]
            end = each.end
        self.counts.update(each.entity_type for each in taken)
        return "".join([*kept, text[end:]])

    def value(self, value: Any) -> Any:
        """Return a JSON value with every text in it masked; keys of objects and numbers stay."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {key: self.value(each) for key, each in value.items()}
            case list() | tuple():
                return [self.value(each) for each in value]
            case _:
                return value


def _as_compared(text: str) -> tuple[str, list[int] | None]:
    """Return a text as the forms are looked for, and where each of its characters stands in the original.

    Wide signs and the like are as in NFKC, what nobody sees is left out, %40 is an @, and emphasis is spaces. There are
    no places where they are the same.
    """
    places = None
    if not text.isascii() or "%40" in text:
        signs = [
            (sign, found.start())
            for found in _SIGN.finditer(text)
            if unicodedata.category(found[0][0]) != "Cf"
            for sign in ("@" if found[0] == "%40" else unicodedata.normalize("NFKC", found[0]))
        ]
        text, places = "".join(sign for sign, _ in signs), [place for _, place in signs]
    return _EMPHASIS.sub(lambda found: " " * len(found[0]), text), places


def _email(base: Any) -> Any:
    import tldextract

    domains = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())

    class Email(base):
        """Presidio's, around each @ and with the list of domains that a package has.

        The original asks the internet for a newer list, and takes a minute for `a.a.a.a` of 20,000 characters.
        """

        def analyze(self, text: str, entities: Any, nlp_artifacts: Any = None, regex_flags: Any = None) -> list[Any]:
            found = []
            for at in re.finditer("@", text):
                first = max(at.start() - _LONGEST_LOCAL, 0)
                domain = text[at.end() : at.end() + _LONGEST_DOMAIN].replace("_", " ")  # which no domain holds
                window = text[first : at.end()] + domain
                for each in super().analyze(window, entities, nlp_artifacts, regex_flags):
                    each.start, each.end = each.start + first, each.end + first
                    if each.start < at.end() <= each.end:
                        found.append(each)
            return found

        def validate_result(self, pattern_text: str) -> bool:
            found = domains(pattern_text)
            return bool(found.top_domain_under_public_suffix) or found.domain.lower() in _PRIVATE

    return Email()


def _iban(base: Any) -> Any:
    class Iban(base):
        """Presidio's, for numbers in small letters, too."""

        def analyze(self, text: str, entities: Any, nlp_artifacts: Any = None, regex_flags: Any = None) -> list[Any]:
            given = text, text.translate(_UPPER)
            return [each for form in given for each in super(Iban, self).analyze(form, entities)]

    return Iban()


@cache
def _recognizers(kinds: Sequence[Personal]) -> list[Any]:
    if not kinds:
        return []
    # It says at every start that it has no settings for languages of its own.
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    from presidio_analyzer import Pattern
    from presidio_analyzer import predefined_recognizers as known

    points = Pattern("with points", r"\b[0-9]{4}\.[0-9]{4}\.[0-9]{4}\.[0-9]{3,4}\b", 0.3)
    named = Pattern(
        "after its name",
        r"\b(?=[0-9]{9}\b)(?<=\b(?:ssn|social security(?: number| no)?)\W{0,3}(?:is\W{1,3})?)[0-9]{9}",
        0.5,
    )
    made: dict[Personal, Any] = {
        "EMAIL_ADDRESS": partial(_email, known.EmailRecognizer),
        "PHONE_NUMBER": known.PhoneRecognizer,
        "CREDIT_CARD": partial(
            known.CreditCardRecognizer,
            patterns=[*known.CreditCardRecognizer.PATTERNS, points],
            replacement_pairs=[(sign, "") for sign in "- ."],
        ),
        "IBAN_CODE": partial(_iban, known.IbanRecognizer),
        "IP_ADDRESS": known.IpRecognizer,
        "MAC_ADDRESS": known.MacAddressRecognizer,
        "US_SSN": partial(known.UsSsnRecognizer, patterns=[*known.UsSsnRecognizer.PATTERNS, named]),
        "CRYPTO": known.CryptoRecognizer,
    }
    return [made[kind]() for kind in kinds]

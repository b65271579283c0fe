"""Masks personal data that shows by its form: addresses of mail, telephone numbers, numbers of cards and accounts.

The forms are those of Microsoft's Presidio, with its checks of digits and lengths. Names of people and places show by
no form, so they stay: Presidio finds them with a language model, which is not a part of rlft.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
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
        found = [each for recognizer in self._recognizers for each in recognizer.analyze(text, self.kinds, None)]
        found = [each for each in found if each.score >= _LEAST_SCORE]
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


@cache
def _recognizers(kinds: Sequence[Personal]) -> list[Any]:
    if not kinds:
        return []
    import tldextract

    # It says at every start that it has no settings for languages of its own.
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    from presidio_analyzer import predefined_recognizers as known

    class Email(known.EmailRecognizer):
        """Presidio's, around each @ and with the list of domains that a package has.

        The original asks the internet for a newer list, and takes a minute for `a.a.a.a` of 20,000 characters.
        """

        def analyze(self, text: str, entities: Any, nlp_artifacts: Any = None, regex_flags: Any = None) -> list[Any]:
            found = []
            for at in re.finditer("@", text):
                first = max(at.start() - _LONGEST_LOCAL, 0)
                window = text[first : at.end() + _LONGEST_DOMAIN]
                for each in super().analyze(window, entities, nlp_artifacts, regex_flags):
                    each.start, each.end = each.start + first, each.end + first
                    if each.start < at.end() <= each.end:
                        found.append(each)
            return found

        def validate_result(self, pattern_text: str) -> bool:
            return bool(domains(pattern_text).top_domain_under_public_suffix)

    domains = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    made: dict[Personal, Any] = {
        "EMAIL_ADDRESS": Email,
        "PHONE_NUMBER": known.PhoneRecognizer,
        "CREDIT_CARD": known.CreditCardRecognizer,
        "IBAN_CODE": known.IbanRecognizer,
        "IP_ADDRESS": known.IpRecognizer,
        "MAC_ADDRESS": known.MacAddressRecognizer,
        "US_SSN": known.UsSsnRecognizer,
        "CRYPTO": known.CryptoRecognizer,
    }
    return [made[kind]() for kind in kinds]

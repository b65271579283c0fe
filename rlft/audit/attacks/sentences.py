"""Attempts at tasks whose gold is a sentence: its words, or most of them, and another meaning."""

from __future__ import annotations

import re

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known

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


ATTACKS = (
    Attack("negated_inside", "it denies what gold says", _negated, _is_sentence, certain=False, counts="full"),
    Attack("other_names", "its names are others", _other_names, _is_sentence, certain=False, counts="full"),
    Attack("names_swapped", "two names have changed places", _names_swapped, _is_sentence, certain=False,
           counts="never", asks="does it not matter who is who?"),
)  # fmt: skip

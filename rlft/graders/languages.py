"""Which language a text is written in, by a small model that py3langid brings with it."""

from __future__ import annotations

from functools import cache
from typing import Any

FEWEST_LETTERS = 20
"""A text with fewer letters is in no language that could be told."""
_READ = 5000  # characters: more tell no more


def check_language(code: str) -> str:
    """Return a language's code. Raises ValueError for one that cannot be told apart."""
    known = sorted(map(str, _model().labels))
    if code not in known:
        raise ValueError(f"{code!r:.20} is no known language; write one of {', '.join(known)}")
    return code


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of the language that a text is most likely in, such as `en`.

    `None` for a text with fewer than `FEWEST_LETTERS` letters. Of a long text the first 5,000 characters are read.
    """
    read = text[:_READ]
    if sum(map(str.isalpha, read)) < FEWEST_LETTERS:
        return None
    return str(_model().classify(read)[0])


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)

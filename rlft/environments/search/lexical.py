"""Ranks documents by the words of a query: BM25 (Robertson and Zaragoza 2009) over titles and texts."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from rlft.environments.search.client import Document
from rlft.errors import EnvironmentSetupError
from rlft.texts.characters import apart

_WORD = re.compile(r"\w+")
TITLE_COPIES = 2  # a title counts as if it stood twice in the text: measured in docs/environments/search.md
K1, B = 1.5, 0.75  # BM25's usual constants; other values changed recall little (docs/environments/search.md)
_LONGEST_WORD = 64  # characters; longer ones are not stemmed, as the stemmers' time grows with the square of the length
_MOST_STEMS = 1 << 16  # words whose stems are kept


class Lexical:
    """Scores documents for a query by BM25. Not for several threads at once: stemmers keep a state."""

    def __init__(self, documents: Sequence[Document], language: str | None) -> None:
        """Index the documents. `language` names a Snowball stemmer, such as "english"; `None` leaves words unstemmed.

        Raises `EnvironmentSetupError` for a language without a stemmer.
        """
        import bm25s  # here, as it takes a second where numba is installed, and scoring stored rollouts needs no search

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG when it is imported
        self._stemmer = stemmer_of(language)
        self._stem = lru_cache(_MOST_STEMS)(self._stemmer.stemWord) if self._stemmer else str
        self._index = bm25s.BM25(method="lucene", k1=K1, b=B)
        texts = (" ".join([*[document.title] * TITLE_COPIES, document.text]) for document in documents)
        self._index.index([self.words(text) or [""] for text in texts], show_progress=False)

    def words(self, text: str) -> list[str]:
        """Return the words of a text in lower case, reduced to their stems; of scripts without spaces each letter."""
        found = _WORD.findall(apart(text.lower()))
        return [self._stem(word) if len(word) <= _LONGEST_WORD else word for word in found]

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return one score per document, (documents,), in their order; 0 where no word of the query occurs."""
        known = self._index.get_tokens_ids(self.words(query))
        return self._index.get_scores_from_ids(known)


def stemmer_of(language: str | None) -> Any:
    """Return the Snowball stemmer of a language, or `None` for `None`.

    Raises `EnvironmentSetupError`, which lists the languages there are, for one without a stemmer.
    """
    if language is None:
        return None
    if language not in snowballstemmer.algorithms():
        raise EnvironmentSetupError(
            f"language={language!r} has no stemmer",
            where="environment.kwargs.client_kwargs",
            fix=f"use null or one of {', '.join(sorted(snowballstemmer.algorithms()))}",
        )
    return snowballstemmer.stemmer(language)


def lexical_identity(language: str | None) -> list[str | int | float | None]:
    """Return all that scores depend on beside the documents: versions of libraries and settings."""
    return ["bm25s", version("bm25s"), version("snowballstemmer"), language, K1, B, TITLE_COPIES]

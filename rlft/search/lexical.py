"""Lexical search: BM25 (Robertson and Zaragoza 2009) over the words of titles and texts."""

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

from rlft.errors import EnvironmentSetupError
from rlft.search.client import Document

_WORD = re.compile(r"\w+")
TITLE_COPIES = 2  # a title counts as if it stood twice in the text: measured in docs/environments/search.md
K1, B = 1.5, 0.75
_LONGEST_WORD = 64  # a longer one is no word, and the stemmers' time grows with the square of its length
_MOST_STEMS = 1 << 16


class Lexical:
    """BM25 scores of documents for a query. Not for several threads at once: stemmers keep a state."""

    def __init__(self, documents: Sequence[Document], language: str | None) -> None:
        """`language` names a Snowball stemmer, such as "english"; `None` leaves words as they are."""
        import bm25s  # takes a second where numba is installed; scoring stored rollouts needs no search

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG when it is imported
        self._stemmer = stemmer_of(language)
        self._stem = lru_cache(_MOST_STEMS)(self._stemmer.stemWord) if self._stemmer else str
        self._index = bm25s.BM25(method="lucene", k1=K1, b=B)
        texts = (" ".join([*[document.title] * TITLE_COPIES, document.text]) for document in documents)
        self._index.index([self.words(text) or [""] for text in texts], show_progress=False)

    def words(self, text: str) -> list[str]:
        """The words of a text in lower case, reduced to their stems."""
        found = _WORD.findall(text.lower())
        return [self._stem(word) if len(word) <= _LONGEST_WORD else word for word in found]

    def scores(self, query: str) -> NDArray[np.float32]:
        """One score per document, in their order; 0 where no word of the query occurs."""
        known = self._index.get_tokens_ids(self.words(query))
        return self._index.get_scores_from_ids(known)


def stemmer_of(language: str | None) -> Any:
    """The Snowball stemmer of a language. Raises `EnvironmentSetupError` that lists the languages there are."""
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
    """All that scores depend on beside the documents."""
    return ["bm25s", version("bm25s"), version("snowballstemmer"), language, K1, B, TITLE_COPIES]

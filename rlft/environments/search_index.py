"""The interface that a search environment searches by, and the index that comes with rlft.

The index is in memory, for some ten thousand paragraphs of a file of JSON lines with `doc_id`, `title` (may be missing)
and `text`; other fields are ignored.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, Literal, Protocol, get_args

import numpy as np
import snowballstemmer
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from rlft.files import expanded
from rlft.texts.characters import apart

Mode = Literal["auto", "lexical", "vector", "hybrid"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Document:
    """Holds a text that can be found and read.

    Answers list ids in a line, separated by commas or spaces. So `doc_id` has no white space, comma or semicolon, and
    begins and ends with a letter, digit or underscore; a closing bracket, as in "Mercury_(planet)", may end it too.
    """

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """Holds a document that a search found, with `snippet`, a passage of it. A higher `score` is better; it has no set
    range."""

    doc_id: str
    title: str
    snippet: str
    score: float


class SearchClient(Protocol):
    """Searches documents and reads them. Its methods may be called from several threads at once."""

    @property
    def fingerprint(self) -> str:
        """An identity, such as a hash, of all that results depend on: documents, settings, models. Never empty.

        Stored rollouts are used again while it stays the same, so it must change whenever results may change.
        """
        ...

    def search(self, query: str, *, mode: str = "auto", limit: int = 5) -> Sequence[Hit]:
        """Return at most `limit` hits, best first, always the same for the same arguments.

        `mode` is one of `MODES`. Raises `ValueError` for a query or mode that it cannot search with; its text is shown
        to the model.
        """
        ...

    def read(self, doc_id: str) -> Document:
        """Return the whole document. Raises `LookupError` for an unknown id."""
        ...


class Embedding(Protocol):
    """Turns texts into vectors of norm 1. `fingerprint` changes when the vectors may."""

    fingerprint: str

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of documents, (texts, width)."""
        ...

    def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query, (width,); its dot products with those of documents are the cosines."""
        ...


_WORD = re.compile(r"\w+")
TITLE_COPIES = 2  # a title counts as if it stood twice in the text: measured in docs/environments/search.md
K1, B = 1.5, 0.75  # BM25's usual constants; other values changed recall little (docs/environments/search.md)
_LONGEST_WORD = 64  # characters; longer ones are not stemmed, as the stemmers' time grows with the square of the length
_MOST_STEMS = 1 << 16  # words whose stems are kept


class Lexical:
    """Scores documents for a query by BM25. Not for several threads at once: stemmers keep a state."""

    def __init__(self, documents: Sequence[Document], language: str | None) -> None:
        """Index the documents. `language` names a Snowball stemmer, such as "english"; `None` leaves words unstemmed.

        Raises KeyError for a language without a stemmer, which `CorpusIndex` refuses before.
        """
        import bm25s  # here, as it takes a second where numba is installed, and scoring stored rollouts needs no search

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG when it is imported
        self._stem = lru_cache(_MOST_STEMS)(snowballstemmer.stemmer(language).stemWord) if language else str
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


class _Row(BaseModel):
    """A line of the file."""

    doc_id: str = Field(pattern=r"^\w(?:[^\s,;]*[\w)])?$")
    title: str | None = None
    text: str


def load_documents(path: str) -> tuple[Document, ...]:
    """Return the documents of a file, sorted by id.

    Raises OSError for a file that cannot be read, and ValueError for one without documents and, naming the line, for a
    row that is no document and for an id given twice.
    """
    place, found = expanded(path), dict[str, Document]()
    # Not `splitlines`: texts may hold U+2028 and the like.
    for number, line in enumerate(place.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate_json(line)
        except ValidationError as error:
            wrong = error.errors()[0]
            said = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
            raise ValueError(f"{path}:{number}: no document: {said}") from error
        if row.doc_id in found:
            raise ValueError(f"{path}:{number}: the id {row.doc_id!r} is given twice")
        found[row.doc_id] = Document(row.doc_id, row.title or "", row.text)
    if not found:
        raise ValueError(f"{path}: there are no documents in it")
    return tuple(found[doc_id] for doc_id in sorted(found))


def hash_documents(documents: Iterable[Document]) -> str:
    """Return the sha256 (hexadecimal) of the documents' ids, titles and texts in their order."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(json.dumps([document.doc_id, document.title, document.text]).encode() + b"\n")
    return digest.hexdigest()


RRF_K = 60
"""The constant of reciprocal rank fusion, as in the paper (see `fuse`)."""
RRF_DEPTH = 100
"""How many of the best documents of each ranking are fused."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class CorpusIndex:
    """Searches the documents of a JSON Lines file; it is a `rlft.environments.search_index.SearchClient`.

    Modes: `lexical` (BM25), `vector` (cosine of embeddings), `hybrid` (both, by reciprocal rank fusion), and `auto`,
    which is `hybrid` where there is an embedding, else `lexical`. Documents are embedded when the index is made; their
    words are indexed by `prepare` or at the first search.
    """

    def __init__(
        self,
        documents: str,
        language: str | None = "english",
        embedding: str | Embedding | None = None,
        embedding_kwargs: Mapping[str, Any] | None = None,
        cache_dir: str | None = None,
        snippet_characters: int = 200,
    ) -> None:
        """Load the file `documents` (see the top of this file) and embed its texts if there is an `embedding`.

        `language` names the stemmer; `None` leaves words as they are. `embedding` is a model's folder or Hub name, with
        `embedding_kwargs` as the arguments of `ModelEmbedding`, or an object of the user's. The vectors of documents
        are kept in `cache_dir` if one is given. A hit shows at most `snippet_characters`. Raises
        ValueError and OSError for what cannot be read or loaded.
        """
        if language is not None and language not in (known := snowballstemmer.algorithms()):
            raise ValueError(f"there is no stemmer for language={language!r}; use null, or one of {', '.join(known)}")
        self._documents = load_documents(documents)
        self._by_id = {document.doc_id: document for document in self._documents}
        self._language = language
        self._cache_dir = None if cache_dir is None else expanded(str(cache_dir))
        self._snippet_characters = snippet_characters
        self._lock = threading.Lock()
        if isinstance(embedding, str):
            from rlft.environments.search_embedding import ModelEmbedding  # imports torch, which BM25 does not need

            embedding = ModelEmbedding(embedding, **(embedding_kwargs or {}))
        self._embedding = embedding
        if embedding is not None:
            self._vectors = self._embed(embedding)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that this index can search with."""
        return MODES if self._embedding else ("auto", "lexical")

    @property
    def fingerprint(self) -> str:
        """The sha256 of documents, settings, versions of the libraries that rank, and the embedding's fingerprint."""
        identity = [
            hash_documents(self._documents),
            ["bm25s", version("bm25s"), version("snowballstemmer"), self._language, K1, B, TITLE_COPIES],
            [RRF_K, RRF_DEPTH, self._snippet_characters],
            self._embedding.fingerprint if self._embedding else None,
        ]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def prepare(self) -> None:
        """Index the words now, which takes a second or more, so that no search has to wait for it."""
        with self._lock:
            _ = self._lexical

    def read(self, doc_id: str) -> Document:
        """Return the whole document. Raises `LookupError` for an unknown id."""
        if doc_id not in self._by_id:
            raise LookupError(f"there is no document {doc_id!r:.80}")
        return self._by_id[doc_id]

    def search(self, query: str, *, mode: str = "auto", limit: int = 5) -> list[Hit]:
        """Return at most `limit` hits, best first. Raises `ValueError` for a mode that this index does not have."""
        if mode not in self.modes:
            raise ValueError(f"there is no mode {mode!r:.80}; there are: {', '.join(self.modes)}")
        if mode == "auto":
            mode = "hybrid" if self._embedding else "lexical"
        with self._lock:  # stemmers and tokenizers are not safe to use in several threads at once
            ranked = self._ranked(query, mode, limit)
            words = set(self._lexical.words(query))
            return [self._hit(place, score, words) for place, score in ranked]

    def _ranked(self, query: str, mode: str, count: int) -> list[tuple[int, float]]:
        """Return the `count` best (place of the document, score) in a mode other than `auto`, best first."""
        if self._embedding is None or mode == "lexical":
            return _best(self._lexical.scores(query), count, above=0.0)
        by_vector = self._vectors @ self._embedding.query(query)
        if mode == "vector":
            return _best(by_vector, count)
        both = _best(self._lexical.scores(query), RRF_DEPTH, above=0.0), _best(by_vector, RRF_DEPTH)
        return fuse([[place for place, _ in ranking] for ranking in both])[:count]

    @cached_property
    def _lexical(self) -> Lexical:
        return Lexical(self._documents, self._language)

    def _embed(self, embedding: Embedding) -> NDArray[np.float32]:
        """Return the vectors of all documents, (documents, width), from the cache if they are there."""
        from rlft.environments.search_embedding import cached_vectors

        def make() -> NDArray[np.float32]:
            return embedding.documents([_titled(document) for document in self._documents])

        if self._cache_dir is None:
            return make()
        key = hashlib.sha256(f"{hash_documents(self._documents)} {embedding.fingerprint}".encode()).hexdigest()
        return cached_vectors(self._cache_dir / f"vectors-{key[:32]}.npy", make)

    def _hit(self, place: int, score: float, words: set[str]) -> Hit:
        """Return a document as a hit; its snippet is the first sentence with the most of the query's words."""
        document = self._documents[place]
        sentences = _SENTENCE.split(" ".join(document.text.split()))
        shared = [len(words & set(self._lexical.words(sentence))) for sentence in sentences]
        best = sentences[shared.index(max(shared))]
        return Hit(document.doc_id, document.title, shorten(best, self._snippet_characters), score)


def fuse(rankings: Iterable[Sequence[int]], k: int = RRF_K) -> list[tuple[int, float]]:
    """Merge rankings by reciprocal rank fusion (Cormack, Clarke and Buettcher 2009).

    An item's score is the sum of 1 / (k + rank) over the rankings that have it, with ranks from 1. Return (item,
    score), best first; equal scores are in the order of items.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return sorted(((item, round(score, 9)) for item, score in scores.items()), key=lambda pair: (-pair[1], pair[0]))


def shorten(text: str, characters: int) -> str:
    """Return the text, cut to at most so many characters, of which the last three are dots if it was cut."""
    return text if len(text) <= characters else text[: max(characters - 3, 0)] + "..."


def _best(scores: NDArray[np.float32], count: int, above: float = -np.inf) -> list[tuple[int, float]]:
    """Return the `count` best (place, score) above a score; equal scores are in the order of places, and so of ids."""
    # Rounded, so that the ranking does not depend on the order of floating-point sums, which machines do differently.
    rounded = np.round(scores.astype(np.float64), 6)
    order = np.argsort(-rounded, kind="stable")[:count]
    return [(int(place), float(rounded[place])) for place in order if rounded[place] > above]


def _titled(document: Document) -> str:
    return f"{document.title}. {document.text}" if document.title else document.text

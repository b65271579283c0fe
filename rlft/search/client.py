"""What an environment asks of a search, whatever is behind it: an index in memory, a server, a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Mode = Literal["auto", "lexical", "vector", "hybrid"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Document:
    """A text that can be found and read.

    Answers list ids in a sentence, so `doc_id` has no white space, comma or semicolon, and begins and ends with a
    letter or digit; a closing bracket, as in "Mercury_(planet)", may end it too.
    """

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that a search found. `snippet` is a passage of it; a higher `score` is better, of no set range."""

    doc_id: str
    title: str
    snippet: str
    score: float


class SearchClient(Protocol):
    """A search over documents. Its methods may be called from several threads at once."""

    @property
    def fingerprint(self) -> str:
        """Identity of all that results depend on: documents, settings, models. Never empty.

        Stored rollouts are used again while it stays the same, so a search whose results may change must change it.
        """
        ...

    def search(self, query: str, *, mode: str = "auto", limit: int = 5) -> Sequence[Hit]:
        """At most `limit` hits, best first, always the same for the same query.

        Raises `ValueError` for what it cannot search with; its text is for the model.
        """
        ...

    def read(self, doc_id: str) -> Document:
        """The whole document. Raises `LookupError` for an id it does not have."""
        ...

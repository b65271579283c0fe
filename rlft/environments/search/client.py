"""The interface that an environment searches by, whatever is behind it: an index in memory, a server, a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

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

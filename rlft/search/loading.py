"""Makes the search client that an environment's arguments ask for."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any

from rlft.errors import EnvironmentSetupError
from rlft.search.client import MODES, SearchClient
from rlft.search.index import CorpusIndex

_WHERE = "environment.kwargs"


def make_client(documents: str | None, name: str | None, kwargs: dict[str, Any], modes: Sequence[str]) -> SearchClient:
    """Return the index over `documents`, or the client whose import path is `name`, made with `kwargs`.

    Raises `EnvironmentSetupError` if not exactly one of the two is given, if it cannot be made, has not the members of
    a `SearchClient`, or does not offer the `modes`; for a client of the user's these are only checked against `MODES`.
    """
    _check((documents is None) != (name is None), "it needs documents or a client, one of them", "give one")
    if documents is not None:
        index = CorpusIndex(documents, **kwargs)
        known = ", ".join(index.modes)
        has_all = bool(modes) and set(modes) <= set(index.modes)
        _check(has_all, f"modes={list(modes)} are not all there", f"use some of {known}, or give an embedding")
        return index
    _check(bool(modes) and set(modes) <= set(MODES), f"modes={list(modes)}", f"use some of {', '.join(MODES)}")
    try:
        client: Any = pkgutil.resolve_name(str(name))(**kwargs)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise EnvironmentSetupError(
            f"the client {name!r} cannot be made: {error}",
            where=_WHERE,
            fix="write package.module:Class, and its arguments as client_kwargs",
        ) from error
    lacks = [each for each in ("search", "read", "fingerprint") if not hasattr(client, each)]
    _check(not lacks, f"the client {name!r} has no {', '.join(lacks)}", "see rlft.search.client.SearchClient")
    return client


def _check(holds: bool, what: str, fix: str) -> None:
    if not holds:
        raise EnvironmentSetupError(what, where=_WHERE, fix=fix)

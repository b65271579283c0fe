"""What is said of a name that means no run, or several."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from shlex import quote

from rlft.errors import RlftError

_NAMED = 5  # a message names at most so many


def unknown_run(asked: str, names: Sequence[str], begin: Sequence[str] | None = None) -> RlftError:
    """Return the error for what is asked for, which means no single one of the runs of these names, newest first.

    `begin` are those that it is the beginning of, if that is known by more than their names.
    """
    begin = [name for name in names if name.startswith(asked)] if begin is None else begin
    if len(begin) > 1:
        return RlftError(f"{len(begin)} runs begin with {asked!r}", where="RUN", fix=f"name one: {_listed(begin)}")
    near = begin or get_close_matches(asked, names, n=1)
    fix = f"did you mean {quote(near[0])}?" if near else f"the newest runs are: {_listed(names) or 'none'}"
    return RlftError(f"no run is called {asked!r}", where="RUN", fix=fix)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names[:_NAMED]))

"""What is said of a name that means no run, several, or a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from shlex import join, quote
from typing import NamedTuple

from rlft.errors import RlftError

_NAMED = 5  # a message names at most so many
_COMPARED = 20  # `rlft compare` takes at most so many


class SweptRuns(NamedTuple):
    """The names of the runs of a sweep, the oldest first, and of those that have a result."""

    names: list[str]
    scored: list[str]


def unknown_run(
    asked: str,
    names: Sequence[str],
    begin: Sequence[str] | None = None,
    sweeps: Mapping[str, SweptRuns] | None = None,
) -> RlftError:
    """Return the error for what is asked for, which means no single one of the runs of these names, newest first.

    `begin` are those that it is the beginning of, if that is known by more than their names. `sweeps` are known by
    their names.
    """
    if sweeps and (swept := sweeps.get(asked)):
        return _is_sweep(asked, swept)
    begin = [name for name in names if name.startswith(asked)] if begin is None else begin
    if len(begin) > 1:
        return RlftError(f"{len(begin)} runs begin with {asked!r}", where="RUN", fix=f"name one: {_listed(begin)}")
    near = begin or get_close_matches(asked, names, n=1)
    fix = f"did you mean {quote(near[0])}?" if near else f"the newest runs are: {_listed(names) or 'none'}"
    return RlftError(f"no run is called {asked!r}", where="RUN", fix=fix)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names[:_NAMED]))


def _is_sweep(asked: str, swept: SweptRuns) -> RlftError:
    count, first = len(swept.names), quote(swept.names[0])
    what = f"{asked!r} is a sweep of {count} runs, and no run" if count > 1 else f"{asked!r} is a sweep, and no run"
    fix = f"name one of its runs, such as {first}" if count > 1 else f"name its run, {first}"
    if 2 <= len(swept.scored) <= _COMPARED:
        fix += f". All side by side: rlft compare {join(swept.scored)}"
    else:
        fix += "; `rlft runs` lists them" if count > 1 else ""
    return RlftError(what, where="RUN", fix=fix)

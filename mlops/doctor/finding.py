"""One result of a check, as `rlft doctor` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: `what` was found, `state` is ok, warning or broken, and `fix` says how to mend it."""

    state: str
    what: str
    fix: str = ""

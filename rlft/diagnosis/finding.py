"""A cause that keeps a reward from rising."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause by its name, a sentence with its numbers, and another that says which settings to change, and how."""

    cause: str
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.what} {self.remedy}"

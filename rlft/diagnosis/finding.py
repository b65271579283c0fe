"""A cause that keeps a reward from rising."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.files import RLFT_FOLDER

GUIDE = "docs/guide/diagnosis.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause by its name, a sentence with its numbers, and another that says which settings to change, and how."""

    cause: str
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences, and where the guide explains them."""
        return f"{self.what} {self.remedy} More: {self.link}"

    @property
    def link(self) -> str:
        """The place in the guide that explains the cause: its heading there, as GitHub writes it in an address."""
        return f"{GUIDE}#{self.cause.lower().replace(' ', '-')}"

    @property
    def address(self) -> str:
        """The address of this place in the clone that this code is of, for a terminal that opens links; else empty."""
        page = RLFT_FOLDER.parent / GUIDE
        return f"{page.as_uri()}{self.link.removeprefix(GUIDE)}" if page.is_file() else ""

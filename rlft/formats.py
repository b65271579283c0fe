"""The formats in which rlft stores what it reads again: the one place that says which versions of each are read.

What is stored says its version under the key `format`. What says none is of version 0: rlft stored it before formats
had versions. Who changes a format so that a reader would get it wrong (a name that is new, gone or means something
else) raises `newest` here, and either reads the version before or raises `oldest`, which refuses it with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlft.errors import FormatVersionError

KEY = "format"
_NEWER, _OLDER = "look at it with that rlft, or bring this one up to date", "use the rlft that made it, or make it anew"


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its `name`; versions from `oldest` to `newest` are read, and `newest` is the one that is written."""

    name: str
    newest: int
    oldest: int = 0

    def check(self, version: object, *, where: str = "") -> int:
        """Return the version that something stored says, as a number or as digits; `None` means 0.

        Raises FormatVersionError, which names `where`, for a version that is not read.
        """
        found = _number(version)
        if found is not None and self.oldest <= found <= self.newest:
            return found
        reads = str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"
        who = "a newer rlft" if found is None or found > self.newest else "an older rlft"
        raise FormatVersionError(
            f"made by {who}: {self.name} is stored there in format version {version!s:.20}, and this rlft reads "
            f"{reads}",
            where=where,
            fix=_OLDER if who == "an older rlft" else _NEWER,
        )


SUMMARY = Format("the summary of a run", newest=2)
EVALUATION = Format("the summary of an evaluation", newest=1)
REPLAY = Format("the summary of a replay", newest=1)
CONFIG = Format("the config of a run", newest=1)
TASKS = Format("a table of tasks", newest=1)
ROLLOUTS = Format("a table of rollouts", newest=1)
REWARDS = Format("a table of rewards", newest=4)
REPORT = Format("a report", newest=1)
POLICY = Format("a policy", newest=1)
RUN = Format("what a home holds of a run", newest=1, oldest=1)
VERSION = Format("a registered version", newest=1)


def _number(version: object) -> int | None:
    """Return a version as a number; `None` for what no rlft so far has written."""
    if version is None:
        return 0
    if isinstance(version, bool) or not isinstance(version, int | str):
        return None
    text = str(version)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

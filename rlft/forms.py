"""The forms in which rlft stores what it reads again: the one place that says which versions of each are read.

What is stored says its version under the key `format`. What has none is of version 0: rlft stored it before forms had
versions. Who changes a form so that today's readers would get it wrong (a name that is new, gone or means something
else) raises `newest` here, and reads the version before or raises `oldest`, which refuses it with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlft.errors import OtherFormError

KEY = "format"
_NEWER, _OLDER = "look at it with that rlft, or bring this one up to date", "use the rlft that made it, or make it anew"


@dataclass(frozen=True, slots=True)
class Form:
    """A form by its `name`; versions from `oldest` to `newest` are read, and `newest` is the one that is written."""

    name: str
    newest: int
    oldest: int = 0

    def check(self, version: object, *, where: str = "") -> int:
        """Return the version that something stored says, as a number or as digits; `None` means 0.

        Raises OtherFormError, which names `where`, for a version that is not read.
        """
        found = _number(version)
        if found is not None and self.oldest <= found <= self.newest:
            return found
        reads = str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"
        who = "a newer rlft" if found is None or found > self.newest else "an older rlft"
        raise OtherFormError(
            f"made by {who}: {self.name} is stored there in form {version!s:.20}, and this rlft reads {reads}",
            where=where,
            fix=_OLDER if who == "an older rlft" else _NEWER,
        )


SUMMARY = Form("the summary of a run", newest=1)
EVALUATION = Form("the summary of an evaluation", newest=1)
CONFIG = Form("the config of a run", newest=1)
TASKS = Form("a table of tasks", newest=1)
ROLLOUTS = Form("a table of rollouts", newest=1)
REWARDS = Form("a table of rewards", newest=1)
REPORT = Form("a report", newest=1)
POLICY = Form("a policy", newest=1)
SEAL = Form("a seal", newest=1)
PLACES = Form("the table of a run's artifacts", newest=1)
VERSION = Form("a registered version", newest=1)


def _number(version: object) -> int | None:
    """Return a version as a number; `None` for what no rlft so far has written."""
    if version is None:
        return 0
    if isinstance(version, bool) or not isinstance(version, int | str):
        return None
    text = str(version)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

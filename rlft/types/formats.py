"""The formats in which rlft stores what it reads again, each with the one version that is written and read.

What is stored says its version under the key `format`. Who changes a format so that a reader would get it wrong (a
name that is new, gone or means something else) raises its `version` here; what has another one is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlft.errors import FormatVersionError

KEY = "format"


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its `name`, and its version."""

    name: str
    version: int

    def check(self, stored: object, *, where: str = "") -> None:
        """Raise FormatVersionError, which names `where`, if something stored says another version, or none."""
        if str(stored) != str(self.version):
            raise FormatVersionError(
                f"{self.name} is expected there in format version {self.version}, and its version is {stored!s:.20}",
                where=where,
                fix="if another rlft made it, use that one, or make it anew",
            )


SUMMARY = Format("the summary of a run", 2)
EVALUATION = Format("the summary of an evaluation", 1)
REPLAY = Format("the summary of a replay", 1)
CONFIG = Format("the config of a run", 1)
TASKS = Format("a table of tasks", 1)
ROLLOUTS = Format("a table of rollouts", 1)
REWARDS = Format("a table of rewards", 5)
REPORT = Format("a report", 1)
POLICY = Format("a policy", 1)
RUN = Format("what a home holds of a run", 1)
VERSION = Format("a registered version", 1)

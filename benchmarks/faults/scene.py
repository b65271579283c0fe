"""Homes to damage, a run to compare with, and the verdict on what a command did."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tests.e2e.conftest import TINY, Home, Result

Verdict = Literal["survived", "stopped", "raw", "silent"]

MOST_LINES = 60  # of a whole run's output: its stages take some 35
_HALFWAY = "rlft.training.job:train_round:2"
_AT_THE_END = "steps.promotion:register_policy_version:1"
_COMMAND = re.compile(r"\brlft (?:resume|run|doctor)\b[^`\n,;]*")
_RAW = ("Traceback (most recent call last)", "unexpected error")


@dataclass(frozen=True)
class Fault:
    """One way to harm a run. `cause` harms it, runs a command and returns what came of it."""

    kind: str
    name: str
    cause: Callable[[Scene], Seen]


@dataclass(frozen=True)
class Seen:
    """What became of a fault: the commands' results in their order, and where the run was."""

    home: Home
    results: list[Result]
    must_name: str | None = None  # what the first command has to say, where its exit code alone does not tell
    policies: bool = True  # whether the run was to make policies that can be compared


@dataclass
class Scene:
    """The folder of a benchmark, with a run that was left alone and one that was killed half-way."""

    folder: Path
    _count: int = field(default=0)

    def empty(self) -> Home:
        """Return a home in which nothing was ever started."""
        self._count += 1
        place = self.folder / f"home{self._count}"
        place.mkdir(parents=True)
        return Home(place)

    def copy(self, home: Home) -> Home:
        """Return a copy of a home, which can be damaged."""
        return home.copy(self.empty().folder)

    @cached_property
    def whole(self) -> tuple[Home, Result]:
        """A run that was left alone."""
        home = self.empty()
        result = home.rlft("run", str(TINY))
        assert result.code == 0, result.output
        return home, result

    @cached_property
    def half(self) -> tuple[Home, str]:
        """A run that was killed while its second round trained, and its id."""
        return self._killed(_HALFWAY)

    @cached_property
    def last(self) -> tuple[Home, str]:
        """A run that was killed when it was to register its policy, and its id."""
        return self._killed(_AT_THE_END)

    def _killed(self, place: str) -> tuple[Home, str]:
        home = self.empty()
        killed = home.rlft("run", str(TINY), kill_at=place)
        assert killed.code == -9, killed.output
        return home, home.only_attempt()

    def last_copy(self) -> tuple[Home, str]:
        """Return a copy of the home of the run that was killed at its end, and the run's id."""
        home, run_id = self.last
        return self.copy(home), run_id

    def half_copy(self) -> tuple[Home, str]:
        """Return a copy of the killed run's home, and the run's id."""
        home, run_id = self.half
        return self.copy(home), run_id

    def equal(self, home: Home, result: Result) -> bool:
        """Return whether a run made the policies of the run that was left alone, and the same results with them."""
        if result.summary is None or not result.summary.get("pipeline_run_id"):
            return False
        _, whole = self.whole
        assert whole.summary is not None
        same = _policies(home, result) == self._expected
        return same and all(result.summary[key] == whole.summary[key] for key in ("final", "ledger", "status"))

    @cached_property
    def _expected(self) -> dict[str, Any]:
        return _policies(*self.whole)

    def follow(self, home: Home, result: Result, mend: Callable[[], None] = lambda: None) -> list[Result]:
        """Do what a command says until one ends well; at most four times. `mend` takes the cause away first."""
        results = [result]
        for _ in range(4):
            if results[-1].code == 0 or (command := advised(results[-1].output)) is None:
                break
            mend()
            results.append(home.rlft(*command))
        return results

    def judge(self, seen: Seen) -> tuple[Verdict, bool]:
        """Return the verdict, and whether the run reached its end after what the commands said was done."""
        first, last = seen.results[0], seen.results[-1]
        if any(is_raw(result) for result in seen.results):
            return "raw", False
        if seen.must_name is not None and seen.must_name not in " ".join(first.output.split()):
            return "silent", False
        ended = last.code == 0 and (not seen.policies or self.equal(seen.home, last))
        if first.code == 0:
            return ("survived", True) if ended else ("silent", False)
        return "stopped", ended


def advised(output: str) -> list[str] | None:
    """Return the words of the last command of rlft that an output names, without `rlft`; `None` if it names none."""
    found = _COMMAND.findall(re.sub(r"\s*\n\s*", " ", output)) or _COMMAND.findall(output)
    if not found:
        return None
    words = shlex.split(found[-1].split(" (")[0].split(" to ")[0].split(" after ")[0].rstrip(" .:)"))
    return words[1:]


def is_raw(result: Result) -> bool:
    """Return whether an output is one that only a developer reads."""
    lines = [line for line in result.output.splitlines() if line.strip()]
    return any(sign in result.output for sign in _RAW) or len(lines) > MOST_LINES


def _policies(home: Home, result: Result) -> dict[str, Any]:
    """The weights' hashes that the steps of a run left, by the step."""
    assert result.summary is not None
    steps = home.steps(result.summary["pipeline_run_id"])
    return {name: step["weights"] for name, step in steps.items() if step["weights"]}

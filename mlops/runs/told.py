"""Reads what runs have told of themselves, their summaries, and keeps a sentence of each that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlops.home.folder import Home
from mlops.summary.evaluations import evaluation_file, read_evaluation
from mlops.summary.file import read_summary
from mlops.summary.replays import read_replay, replay_file
from mlops.summary.summary import Summary
from rlft.errors import FormatVersionError

Read = TypeVar("Read")


@dataclass(slots=True)
class Told:
    """What the runs of a home have told.

    `others` are sentences of summaries that another rlft has made, `damaged` of those that are damaged or gone.
    """

    home: Home
    others: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def summary(self, run_id: str, name: str, *, is_due: bool = False) -> Summary | None:
        """Return the summary of an attempt at a run, if it can be read; `is_due` says that there must be one."""
        return self._read(read_summary, self.home.summary_file(run_id), run_id, name, is_due)

    def evaluation(self, run_id: str, name: str, *, is_due: bool) -> Mapping[str, Any] | None:
        """Return the summary of an evaluation, likewise."""
        return self._read(read_evaluation, evaluation_file(self.home, run_id), run_id, name, is_due)

    def replay(self, run_id: str, name: str, *, is_due: bool) -> Mapping[str, Any] | None:
        """Return the summary of a replay, likewise."""
        return self._read(read_replay, replay_file(self.home, run_id), run_id, name, is_due)

    def _read(
        self, read: Callable[[Home, str], Read | None], file: Path, run_id: str, name: str, is_due: bool
    ) -> Read | None:
        try:
            found = read(self.home, run_id)
        except FormatVersionError as other:
            self.others.append(f"{other.where}: {other.what}. Its results are not shown: {other.fix}")
            return None
        is_there = file.is_file()
        if found is None and (is_there or is_due):
            what = "is damaged" if is_there else "is gone"
            more = "MLflow has it, too, as summary.json of its run, and all else of the run is there"
            self.damaged.append(f"{file}: the summary of {name} {what}, and its results are not shown. {more}")
        return found

"""What came of a try: from the summary that it left, or from the home if it was killed before it could leave one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlops.home.folder import Home
from mlops.runs.listing import list_runs
from mlops.schedules.firings import Try
from mlops.summary.summary import Summary
from rlft.schedule.settings import Event

KILLED = 137  # how shells tell of a process that SIGKILL has ended


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of a try and its summary, as far as there is one.

    `code` is `None` if nothing had begun. `has_begun` says whether there is a run that a resume can go on with.
    """

    code: int | None
    summary: Summary | None
    has_begun: bool

    @property
    def is_hopeless(self) -> bool:
        """Whether another try would fail again, as a setting cannot work with the tasks."""
        return self.summary is not None and self.summary.needs_new_settings

    @property
    def status(self) -> str:
        """The status of the summary; empty without one."""
        return self.summary.status if self.summary is not None else ""


def outcome_of(home: Home, this: Try, summary_file: Path, stack: str | None) -> Outcome:
    """Return what came of a try whose process has ended; its code may be unknown, as that of a run that was found.

    Of a run on a stack that left no summary it is not known whether it had begun; then it is taken to have.
    """
    found = _read(summary_file)
    if found is None and stack is None:
        listed = next((run for run in list_runs(home).runs if run.name == this.run), None)
        if listed is None:
            return Outcome(this.code, None, has_begun=False)
        found = listed.summary
        if found is None:
            return Outcome(KILLED if this.code is None else this.code, None, has_begun=True)
    if found is None:
        return Outcome(KILLED if this.code is None else this.code, None, has_begun=True)
    code = this.code
    if code is None:
        code = KILLED if found.status == "running" else found.exit_code
    return Outcome(code, found, has_begun=found.pipeline_run_id is not None)


def _read(file: Path) -> Summary | None:
    try:
        return Summary.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def events_of(state: Literal["finished", "failed"], summary: Summary | None) -> list[Event]:
    """Return what there is to tell of a firing that has ended so."""
    if state == "failed":
        return ["failed"]
    if summary is None:
        return []
    found: list[Event] = ["improved"] if summary.status == "improved" else []
    if summary.promotion.promoted:
        found.append("promoted")
    if summary.promotion.approval == "pending":
        found.append("waiting_for_approval")
    return found

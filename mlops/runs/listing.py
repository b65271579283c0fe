"""Lists the runs of a home from their files, without ZenML, which takes seconds to import.

A run is all attempts at it. What cannot be read is left out, and `Listing` says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from mlops.home.folder import Home
from mlops.home.processes import goes_on, living_notes, resume_command
from mlops.ids import EVALUATE, PIPELINE, RESCORE, RETRAIN
from mlops.runs.listed import Attempt, ListedRun
from mlops.runs.registered import VERSIONS, noted_versions, with_versions
from mlops.runs.store import LocalRun, RunStore
from mlops.runs.unknown import SweptRuns
from mlops.summary.evaluations import evaluation_file, mlflow_ids, read_evaluation
from mlops.summary.file import read_summary
from mlops.summary.replays import read_replay, replay_file
from mlops.summary.summary import Summary
from rlft.errors import FormatVersionError

_UNFINISHED = ("initializing", "running")
_COMPLETED = "completed"  # ZenML's word


@dataclass(slots=True)
class Listing:
    """The runs of a home, newest first, and sentences about what could not be read.

    With `problems` it is not known what belongs to a run; `damaged` are single summaries, whose runs are known.
    """

    runs: list[ListedRun]
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def list_runs(home: Home) -> Listing:
    """Return all runs of a home."""
    store, told = RunStore(home), Told(home)
    alive = {note.run_id for note in living_notes(home)}
    sweeps = store.sweeps()
    listing = Listing([_run(told, run, alive, sweeps) for run in store.runs()])
    listing.problems += [*store.problems, *told.others]
    listing.damaged = told.damaged
    try:
        versions = noted_versions(home)
        listing.runs = [with_versions(run, versions) for run in listing.runs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        listing.problems.append(f"{VERSIONS} cannot be read ({cause}): versions are not known; `rlft history` mends it")
    return listing


def _attempt(told: Told, run: LocalRun, known: Mapping[str, Any]) -> Attempt:
    is_due = run.pipeline == PIPELINE and known["status"] == _COMPLETED
    summary = told.summary(known["id"], run.name, is_due=is_due)
    began, ended = datetime.fromisoformat(known["began"]), known["ended"]
    seconds = max(0.0, (datetime.fromisoformat(ended) - began).total_seconds()) if ended else 0.0
    if summary and summary.seconds.total:
        seconds = summary.seconds.total
    return Attempt(known["id"], known["name"], known["status"], began, seconds, summary, run.pipeline)


def _run(told: Told, run: LocalRun, alive: set[str], sweeps: Mapping[str, str]) -> ListedRun:
    attempts = [_attempt(told, run, known) for known in run.attempts]
    own_tokens = [known["tokens"] for known in run.attempts if "tokens" in known]
    hours = [known["gpu_hours"] for known in run.attempts if known.get("gpu_hours") is not None]
    ids = [known["mlflow_run_id"] for known in run.attempts if known.get("mlflow_run_id")]
    done = {a.id: a.status == _COMPLETED for a in attempts}
    evaluations = [told.evaluation(a.id, run.name, is_due=done[a.id]) for a in attempts if a.pipeline == EVALUATE]
    ids += [one for each in evaluations for one in mlflow_ids(each or {})]
    replays = [told.replay(a.id, run.name, is_due=done[a.id]) for a in attempts if a.pipeline in (RESCORE, RETRAIN)]
    own_words = next((each for each in (*evaluations, *replays) if each), {})  # of the newest attempt
    status = _status(told.home, attempts, alive, own_words)
    return ListedRun(
        run.name,
        tuple(attempts),
        status,
        sum(own_tokens) if own_tokens else None,
        again=_again(run.name, run.pipeline, own_words) if status == "interrupted" else "",
        gpu_hours=sum(hours) if hours else None,
        sweep=sweeps.get((run.parameters.get("labels") or {}).get("parent") or "", ""),
        mlflow_runs=tuple(dict.fromkeys(ids)),
    )


def _again(name: str, pipeline: str, told: Mapping[str, Any]) -> str:
    """Return the command that goes on with a run; empty for an evaluation or a replay that has not `told` its own."""
    return resume_command(name, None) if pipeline == PIPELINE else str(told.get("command") or "")


def _status(home: Home, attempts: list[Attempt], alive: set[str], told: Mapping[str, Any]) -> str:
    """Return what became of a run: of an attempt that goes on or has finished, else of the newest."""
    goes = {each.id for each in attempts if each.status in _UNFINISHED and goes_on(home, each.id, each.began)}
    return status_of(attempts, alive | goes, told)


def status_of(attempts: Sequence[Attempt], alive: Collection[str], told: Mapping[str, Any] | None = None) -> str:
    """Return what became of a run, of whose attempts (newest first) those go on whose ids are `alive`.

    `told` is the summary of an evaluation or a replay, `None` or empty without one.
    """
    if any(attempt.id in alive for attempt in attempts):
        return "running"
    for attempt in attempts:
        if attempt.status == _COMPLETED:
            known = attempt.summary and attempt.summary.status
            return known if known and known != "running" else "finished"
    if attempts[0].pipeline != PIPELINE:
        was_cut_short = not told["error"] if told else attempts[0].status in _UNFINISHED
        return "interrupted" if was_cut_short else "failed"
    if (summary := attempts[0].summary) is not None and summary.status == "interrupted":
        return "interrupted"
    return "killed" if attempts[0].status in _UNFINISHED else "failed"


def sweeps_of(runs: list[ListedRun]) -> dict[str, SweptRuns]:
    """Return the sweeps that runs, the newest first, are nested in, by their names."""
    found: dict[str, SweptRuns] = {}
    for run in reversed(runs):
        if run.sweep:
            swept = found.setdefault(run.sweep, SweptRuns([], []))
            swept.names.append(run.name)
            swept.scored.extend([run.name] if run.summary and run.summary.difference else [])
    return found


def to_json(listing: Listing) -> list[dict[str, Any]]:
    """Return the runs as JSON."""
    return json.loads(json.dumps([run.as_json() for run in listing.runs]))


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

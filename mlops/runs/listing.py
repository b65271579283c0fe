"""Lists the runs of a home from its databases and summaries, without ZenML, which takes seconds to import.

A run is all attempts at it: they share the tag `run=NAME`. Databases that cannot be read are left out, and `Listing`
says which.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlops.home.databases import MLFLOW, ZENML, opened
from mlops.home.folder import Home
from mlops.home.processes import goes_on, living_notes, resume_command
from mlops.ids import EVALUATE, OTHERS, PIPELINE, RESCORE, RETRAIN, ROLLOUTS, RUN_TAG, name_of_first
from mlops.runs.listed import Attempt, ListedRun
from mlops.runs.registered import with_mlflow
from mlops.runs.told import Told
from mlops.runs.unknown import SweptRuns
from mlops.summary.evaluations import mlflow_ids

_UNFINISHED = ("initializing", "running")
_COMPLETED, _FAILED = "completed", "failed"  # ZenML's words
# When the last of the steps of each attempt began or ended.
_LAST_STEPS = """
SELECT pipeline_run_id, max(coalesce(max(start_time), ''), coalesce(max(end_time), '')) FROM step_run GROUP BY 1
"""
# Every attempt, newest first, with the name of its run; the tag is missing on runs from before there were tags.
_ATTEMPTS = f"""
SELECT run.id, run.name, run.status, run.created, run.start_time, run.end_time, pipeline.name,
  (SELECT substr(tag.name, {len(RUN_TAG) + 2}) FROM tag_resource JOIN tag ON tag.id = tag_resource.tag_id
   WHERE tag_resource.resource_id = run.id AND tag.name LIKE '{RUN_TAG}=%')
FROM pipeline_run AS run JOIN pipeline ON pipeline.id = run.pipeline_id
WHERE pipeline.name IN (?, ?, ?, ?) ORDER BY run.created DESC
"""
# The tokens that a run has sampled itself; what came from the cache was sampled by another one.
_TOKENS = """
SELECT step_run.pipeline_run_id, SUM(CAST(run_metadata.value AS INTEGER)) FROM step_run
JOIN step_run_output_artifact AS output ON output.step_id = step_run.id AND output.name = ?
JOIN run_metadata_resource AS described ON described.resource_id = output.artifact_id
JOIN run_metadata ON run_metadata.id = described.run_metadata_id AND run_metadata.key = 'sampled_tokens'
WHERE step_run.status = 'completed' GROUP BY 1
"""


@dataclass(slots=True)
class Listing:
    """The runs of a home, newest first, and sentences about what could not be read.

    With `problems` it is not known what belongs to a run; `damaged` are single summaries, whose runs are known.
    """

    runs: list[ListedRun]
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def list_runs(home: Home) -> Listing:
    """Return all runs of a home. Without ZenML's database they are those that left a summary, one for each attempt."""
    listing, told = Listing([]), Told(home)
    alive = {note.run_id for note in living_notes(home)}
    try:
        with opened(ZENML.file(home)) as database:
            groups = _attempts(database, told)
            tokens = dict(database.execute(_TOKENS, (ROLLOUTS.output,)))
    except sqlite3.Error as cause:
        if ZENML.file(home).is_file() or list(_summaries(home)):
            listing.problems.append(
                f"ZenML's database cannot be read ({cause}): these are the runs that left a summary, and "
                "`rlft doctor` says what to do"
            )
        groups, tokens = _from_summaries(home, told), {}
    listing.runs = [_run(told, name, attempts, alive, tokens) for name, attempts in groups.items()]
    listing.problems += told.others
    listing.damaged = told.damaged
    try:
        with opened(MLFLOW.file(home)) as database:
            listing.runs = [with_mlflow(database, run) for run in listing.runs]
    except sqlite3.Error as cause:
        if listing.runs:
            listing.problems.append(f"MLflow's database cannot be read ({cause}): versions and GPU hours are not known")
    listing.runs.sort(key=lambda run: run.began, reverse=True)
    return listing


def _attempts(database: sqlite3.Connection, told: Told) -> dict[str, list[Attempt]]:
    groups: dict[str, list[Attempt]] = {}
    last_steps = dict(database.execute(_LAST_STEPS))
    for key, name, status, created, began, ended, pipeline, tag in database.execute(_ATTEMPTS, (PIPELINE, *OTHERS)):
        run_id = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"
        is_due = pipeline == PIPELINE and status == _COMPLETED
        summary = told.summary(run_id, tag or name_of_first(name), is_due=is_due)
        first = _time(began or created)
        if status == _FAILED and (last := last_steps.get(key)):  # it may have been marked so days after a kill
            ended = min(last, ended or last)
        seconds = max(0.0, (_time(ended) - first).total_seconds()) if ended else 0.0
        if summary and summary.seconds.total:
            seconds = summary.seconds.total
        attempt = Attempt(run_id, name, status, first, seconds, summary, pipeline)
        groups.setdefault(tag or name_of_first(name), []).append(attempt)
    return groups


def _from_summaries(home: Home, told: Told) -> dict[str, list[Attempt]]:
    groups: dict[str, list[Attempt]] = {}
    for file in _summaries(home):
        if summary := told.summary(file.stem, file.stem):
            began = datetime.fromtimestamp(file.stat().st_mtime - summary.seconds.total, UTC)
            status = {"running": "running", "failed": _FAILED, "interrupted": _FAILED}.get(summary.status, _COMPLETED)
            attempt = Attempt(file.stem, file.stem, status, began, summary.seconds.total, summary)
            groups[file.stem] = [attempt]
    return groups


def _summaries(home: Home) -> list[Path]:
    """Return the files of summaries; beside them are notes and locks, which have other names."""
    return [file for file in (home.root / "runs").glob("*.json") if file.name.count(".") == 1]


def _run(told: Told, name: str, attempts: list[Attempt], alive: set[str], tokens: dict[str, int]) -> ListedRun:
    own_tokens = [tokens[attempt.key] for attempt in attempts if attempt.key in tokens]
    ids = [a.summary.mlflow_run_id for a in attempts if a.summary and a.summary.mlflow_run_id]
    done = {a.id: a.status == _COMPLETED for a in attempts}
    evaluations = [told.evaluation(a.id, name, is_due=done[a.id]) for a in attempts if a.pipeline == EVALUATE]
    ids += [one for each in evaluations for one in mlflow_ids(each or {})]
    replays = [told.replay(a.id, name, is_due=done[a.id]) for a in attempts if a.pipeline in (RESCORE, RETRAIN)]
    ids += [replay["mlflow_run_id"] for replay in replays if replay and replay["mlflow_run_id"]]
    own_words = next((each for each in (*evaluations, *replays) if each), {})  # of the newest attempt
    status = _status(told.home, attempts, alive, own_words)
    return ListedRun(
        name,
        tuple(attempts),
        status,
        sum(own_tokens) if own_tokens else None,
        again=_again(name, attempts[0].pipeline, own_words) if status == "interrupted" else "",
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


def _time(text: str) -> datetime:
    """ZenML's times are in UTC, without a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


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

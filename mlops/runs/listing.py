"""Lists the runs of a home from their files, without ZenML, which takes seconds to import.

A run is all attempts at it. What cannot be read is left out, and `Listing` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from shlex import quote
from typing import Any

from mlops.home.folder import Home
from mlops.home.processes import goes_on, resume_command
from mlops.ids import EVALUATE, PIPELINE, RESCORE, RETRAIN
from mlops.runs.store import LocalRun, RunStore, not_shown
from mlops.summary.file import SUMMARY_FILE, mlflow_ids, read_result, summary_of
from mlops.summary.summary import Summary
from rlft.errors import FormatVersionError, RlftError

_KINDS = {PIPELINE: "training", EVALUATE: "evaluation", RESCORE: RESCORE, RETRAIN: RETRAIN}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a run: its id as ZenML writes it, its name, its status and when it began and ended, in UTC."""

    id: str
    name: str
    status: str
    began: datetime
    seconds: float
    pipeline: str = PIPELINE


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with all attempts at it, newest first, and what it has cost and led to.

    `status` is that of its summary, or `running`, `failed`, `killed` or `finished`; an evaluation or a replay that was
    cut short is `interrupted`, as a run is that a signal has ended, and `again` is the command that goes on with it,
    where it is known.
    """

    name: str
    attempts: tuple[Attempt, ...]
    status: str
    tokens: int | None = None
    gpu_hours: float | None = None
    mlflow_runs: tuple[str, ...] = ()
    summary: Summary | None = None
    again: str = ""

    @property
    def began(self) -> datetime:
        """When its first attempt began."""
        return self.attempts[-1].began

    @property
    def seconds(self) -> float:
        """Wall seconds of all attempts."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def version(self) -> tuple[str, str] | None:
        """The registered version as (name, version), if it has one by its summary."""
        promotion = self.summary.promotion if self.summary else None
        return (promotion.name, promotion.version) if promotion and promotion.name and promotion.version else None

    @property
    def is_resumable(self) -> bool:
        """Whether `rlft resume` would go on with it, and not fail again by the settings that it keeps."""
        is_hopeless = self.summary is not None and self.summary.needs_new_settings
        return self.status in ("failed", "killed", "interrupted") and self.kind == "training" and not is_hopeless

    @property
    def kind(self) -> str:
        """What it is: `training`, an `evaluation` of models, or a replay of another run, a `rescore` or `retrain`."""
        return _KINDS[self.attempts[0].pipeline]

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft runs --json` prints it."""
        difference = self.summary.difference if self.summary else None
        return {
            "name": self.name,
            "kind": self.kind,
            "began": self.began.isoformat(),
            "status": self.status,
            "again": self.again or None,
            "attempts": [attempt.id for attempt in self.attempts],
            "difference": difference and difference.model_dump(),
            "seconds": round(self.seconds, 1),
            "gpu_hours": self.gpu_hours,
            "sampled_tokens": self.tokens,
            "version": self.version and {"name": self.version[0], "version": self.version[1]},
        }


_NAMED = 5  # a message names at most so many


def unknown_run(asked: str, names: Sequence[str], begin: Sequence[str] | None = None) -> RlftError:
    """Return the error for what is asked for, which means no single one of the runs of these names, newest first.

    `begin` are those that it is the beginning of, if that is known by more than their names.
    """
    begin = [name for name in names if name.startswith(asked)] if begin is None else begin
    if len(begin) > 1:
        return RlftError(f"{len(begin)} runs begin with {asked!r}", where="RUN", fix=f"name one: {_listed(begin)}")
    near = begin or get_close_matches(asked, names, n=1)
    fix = f"did you mean {quote(near[0])}?" if near else f"the newest runs are: {_listed(names) or 'none'}"
    return RlftError(f"no run is called {asked!r}", where="RUN", fix=fix)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names[:_NAMED]))


def find_local(home: Home, asked: str) -> LocalRun:
    """Return the run of a home that a name, an id of an attempt, or the beginning of either means.

    Raises RlftError if there is none or several.
    """
    store = RunStore(home)
    if len(found := store.matching(asked)) == 1:
        return found[0]
    if store.problems and not found:
        raise RlftError("; ".join(store.problems), where="RUN")
    raise unknown_run(asked, [run.name for run in store.runs()], [run.name for run in found])


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
    store, listing = RunStore(home), Listing([])
    listing.runs = [_run(listing, run) for run in store.runs()]
    listing.problems += store.problems
    return listing


def _told(listing: Listing, run: LocalRun) -> tuple[Summary | None, Mapping[str, Any]]:
    """Return the summary of a run that trains, or of another kind, as JSON; what cannot be read is noted."""
    file, trains = run.folder / SUMMARY_FILE, run.pipeline == PIPELINE
    try:
        found = read_result(run.folder)
    except FormatVersionError as other:
        listing.damaged.append(not_shown(other))
        return None, {}
    summary = summary_of(found)
    if (summary if trains else found) is None and (file.is_file() or run.attempts[0]["status"] == _COMPLETED):
        more = "MLflow has it, too, as summary.json of its run, and all else of the run is there"
        listing.damaged.append(f"{file} is damaged or gone, and is not shown. {more}")
    return summary, {} if trains else found or {}


def _run(listing: Listing, run: LocalRun) -> ListedRun:
    summary, own_words = _told(listing, run)
    attempts = tuple(_attempt(run.pipeline, known) for known in run.attempts)
    own_tokens = [known["tokens"] for known in run.attempts if "tokens" in known]
    hours = [known["gpu_hours"] for known in run.attempts if known.get("gpu_hours") is not None]
    ids = [known["mlflow_run_id"] for known in run.attempts if known.get("mlflow_run_id")]
    ids += mlflow_ids(own_words)
    status = status_of(attempts, goes_on(run.folder), summary, own_words)
    again = resume_command(run.name, None) if run.pipeline == PIPELINE else str(own_words.get("command") or "")
    return ListedRun(
        run.name,
        attempts,
        status,
        sum(own_tokens) if own_tokens else None,
        again=again if status == "interrupted" else "",
        gpu_hours=sum(hours) if hours else None,
        mlflow_runs=tuple(dict.fromkeys(ids)),
        summary=summary,
    )


def _attempt(pipeline: str, known: Mapping[str, Any]) -> Attempt:
    began, ended = datetime.fromisoformat(known["began"]), known["ended"]
    seconds = max(0.0, (datetime.fromisoformat(ended) - began).total_seconds()) if ended else 0.0
    return Attempt(known["id"], known["name"], known["status"], began, seconds, pipeline)


def status_of(
    attempts: Sequence[Attempt], alive: bool, summary: Summary | None, told: Mapping[str, Any] | None = None
) -> str:
    """Return what became of a run, of whose attempts (newest first) one is `alive` or none.

    `told` is the summary of an evaluation or a replay, `None` or empty without one.
    """
    if alive:
        return "running"
    known = summary.status if summary else ""
    if any(attempt.status == _COMPLETED for attempt in attempts):
        return known if known not in ("", "running") else "finished"
    is_unfinished = attempts[0].status in _UNFINISHED
    if attempts[0].pipeline != PIPELINE:
        was_cut_short = not told["error"] if told else is_unfinished
        return "interrupted" if was_cut_short else "failed"
    return "interrupted" if known == "interrupted" else "killed" if is_unfinished else "failed"

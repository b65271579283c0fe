"""Writes and reads the summaries of a home's runs and evaluations, and what `--summary` names; ends those cut off."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlops.summary.summary import Status, Summary
from rlft.errors import ConfigError, FormatVersionError
from rlft.files import why_not_writable, write_file
from rlft.reporting.terminal import errors
from rlft.types.formats import EVALUATION, KEY, REPLAY, SUMMARY, Format

if TYPE_CHECKING:
    from rlft.types import Judging

# A file's time is that of the kernel's last tick, which lies a few milliseconds before that of the clock.
_TICK_SECONDS = 0.02
SUMMARY_FILE = "summary.json"  # its name in the folder of a run, and among the artifacts of the run in MLflow


def summary_text(summary: Summary) -> str:
    """Return the summary as JSON, in ASCII: an error may quote what a model wrote, which need not be valid Unicode."""
    return json.dumps(summary.model_dump(), indent=1)


def keep_summary(folder: Path, summary: Summary) -> None:
    """Write the summary of a run to its folder. Raises OSError."""
    write_file(folder / SUMMARY_FILE, summary_text(summary))


def read_result(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run, an evaluation or a replay, by its folder, as JSON.

    It is `None` if there is none that can be read. Raises FormatVersionError for a format that is not read.
    """
    file = folder / SUMMARY_FILE
    try:
        return _result_of(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeError):
        return None


def read_summary(folder: Path) -> Summary | None:
    """Return the summary of a run, by its folder; `None` if there is none that can be read, or it is of another kind.

    Raises FormatVersionError for a format that is not read.
    """
    return summary_of(read_result(folder))


def summary_of_text(text: str, where: str) -> Summary | None:
    """Return the summary in a JSON text that lies at `where`, as `read_summary` does."""
    return summary_of(_result_of(text, where))


def summary_of(found: Mapping[str, Any] | None) -> Summary | None:
    """Return what `read_result` has found as the summary of a run; `None` if it is none."""
    if found is None or _format_of(found) is not SUMMARY:
        return None
    try:
        return Summary.model_validate(found)
    except ValueError:  # pydantic's
        return None


def _result_of(text: str, where: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    _format_of(found).check(found.get(KEY), where=where)
    return found


def _format_of(found: Mapping[str, Any]) -> Format:
    return EVALUATION if "scenarios" in found else REPLAY if "source_run_id" in found else SUMMARY


def end_summary(folder: Path, reason: str, seconds: float | None) -> None:
    """Change a summary that still says `running`: the run failed for this reason, after so many seconds if known.

    Raises FormatVersionError.
    """
    left = read_summary(folder)
    if left is not None and left.status == "running":
        keep_summary(folder, failed(left, reason, seconds))


def summary_since(folder: Path | None, started: float) -> Summary | None:
    """Return the summary in the folder of a run that was written since `started`, in seconds since the epoch."""
    with suppress(OSError, FormatVersionError):
        if folder is not None and (folder / SUMMARY_FILE).stat().st_mtime >= started - _TICK_SECONDS:
            return read_summary(folder)
    return None


def failed(summary: Summary, reason: str, seconds: float | None = None, *, status: Status = "failed") -> Summary:
    """Return the summary as that of a run that failed or was `interrupted` for this reason, after so many seconds if
    known."""
    spent = summary.seconds if seconds is None else summary.seconds.model_copy(update={"total": seconds})
    return summary.model_copy(update={"status": status, "error": reason, "seconds": spent})


def clear_target(target: Path | None) -> None:
    """Remove an older summary from the file that `--summary` names, so that nobody takes it for that of this run.

    Raises ConfigError for a file that holds something else, and if no summary can be written there.
    """
    if target is None:
        return
    problem = why_not_writable(target)
    try:
        if not problem and target.exists():
            text = target.read_text(encoding="utf-8").strip()  # an empty file may be of `mktemp`
            if text and "pipeline_run_id" not in json.loads(text):
                raise ValueError("it holds something else")
            target.unlink()
    except (OSError, ValueError, TypeError) as cause:
        problem = f"this file is no summary, or cannot be replaced: {cause}"
    if problem:
        raise ConfigError(problem, where=f"--summary {target}", fix="let --summary name another file")


def write_summary(target: Path, content: Summary) -> bool:
    """Write a run's summary to the file that `--summary` names, as `write_asked` does."""
    return write_asked(target, summary_text(content))


def write_asked(target: Path, text: str) -> bool:
    """Write the summary of a command to the file that `--summary` names; print why, and return False, if that fails.

    It is a copy for the caller, and what the command has done is told in any case.
    """
    try:
        write_file(target, text)
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")
        return False
    return True


@dataclasses.dataclass(kw_only=True)
class CommandSummary:
    """What an evaluation and a replay leave, which are commands beside a run.

    `status` is `finished`, `failed` with the reason in `error`, or `interrupted`, and then the same `command` goes on
    with it. `judges` has by stage what judges were asked, as in the summary of a run.
    """

    format: int
    status: str = "interrupted"
    error: str | None = None
    command: str = ""
    pipeline_run_id: str | None = None
    mlflow_run_id: str | None = None
    seconds: float = 0.0
    judges: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def note_judging(self, stage: str, judging: Judging | None) -> None:
        """Note what judges were asked in a stage, if any was; it is added to what the stage has by then."""
        if judging is not None:
            before = self.judges.get(stage)
            self.judges[stage] = dataclasses.asdict(judging if before is None else type(judging)(**before) + judging)

    def as_text(self) -> str:
        """Return it as JSON, in ASCII."""
        return json.dumps(dataclasses.asdict(self), indent=1, default=str)


@dataclasses.dataclass
class EvaluationSummary(CommandSummary):
    """All that an evaluation came to.

    `models` says by label what each model is, and `scenarios` is {cell: {label: measures by split}}. `differences` are
    the pairs of models, each with its sentence. `mlflow_runs` are {cell: {label: id of its MLflow run}} below
    `mlflow_run_id`.
    """

    suite: str
    metric: str
    seed: int
    models: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    scenarios: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)
    differences: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    mlflow_runs: dict[str, dict[str, str | None]] = dataclasses.field(default_factory=dict)
    format: int = dataclasses.field(default=EVALUATION.version, kw_only=True)


def mlflow_ids(summary: Mapping[str, Any]) -> list[str]:
    """Return the ids of all MLflow runs of an evaluation."""
    below = [one for of_models in summary.get("mlflow_runs", {}).values() for one in of_models.values()]
    return [one for one in (summary.get("mlflow_run_id"), *below) if one]

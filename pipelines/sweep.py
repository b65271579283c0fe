"""The MLflow run that stands above the runs of a sweep, which are nested in it, and holds their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from mlops.home.folder import Home
from mlops.ids import SWEEP_TAG
from mlops.runs.identity import source_tags
from mlops.runs.labels import short_overrides
from mlops.runs.store import RunStore
from mlops.summary.result import PREFIX
from mlops.summary.summary import Summary
from mlops.tracking.run import DESCRIPTION, MISSED_FILE, Tracker
from rlft.config import Config
from rlft.evaluation.sweep import Changes, Mean, Score, SettingResult, of_settings, short_names
from rlft.texts.blocks import Headline, Table, paragraph

AS_IN_CONFIG = "as in the config"
OVER_SEEDS = "_over_seeds"  # of ends of an interval: those of a run, without it, are over tasks
_MOST_NAMED = 10  # of the runs that have not begun: a sweep has up to 100, and a tag has little room


@dataclass(frozen=True, slots=True)
class SweptRun:
    """A run of a sweep that has ended with an exit code; it has no `summary` if it did not begin."""

    name: str
    changes: Changes
    exit_code: int
    summary: Summary | None

    @property
    def status(self) -> str:
        """The status of its summary."""
        return "failed" if self.summary is None else self.summary.status

    @property
    def score(self) -> Score | None:
        """What it came to on `test`; `None` if it did not get so far."""
        change = self.summary.difference if self.summary else None
        if change is None:
            return None
        return Score(change.metric, change.before, change.after, change.low, change.high)


def open_sweep(home: Home, config: Config, tracking_uri: str, name: str, sweeps: Sequence[str]) -> Tracker:
    """Open the MLflow run of a sweep in the experiment of its runs."""
    own_store = tracking_uri == home.tracking_uri
    tracker = Tracker(
        tracking_uri,
        config.tracking.experiment or config.name,
        name,
        name,
        artifact_location=home.mlflow_artifacts.as_uri() if own_store else None,
        tags={**source_tags(), "rlft.name": config.name, SWEEP_TAG: " ".join(sweeps), "rlft.status": "running"},
        missed_path=home.run_folder(name, shared=not own_store) / MISSED_FILE,
    )
    if own_store:
        RunStore(home).note_sweep(name, tracker.run_id)
    return tracker


def result_of(runs: Sequence[SweptRun], planned: Sequence[str]) -> dict[str, Any]:
    """Return what the runs came to, as JSON: `runs`, and the means over seeds of each of the `settings`.

    `planned` are the names of all runs of the sweep; those that have not begun are `not_begun`.
    """
    return {
        "runs": [
            {
                "name": run.name,
                "changes": run.changes,
                "status": run.status,
                "exit_code": run.exit_code,
                "pipeline_run_id": run.summary.pipeline_run_id if run.summary else None,
                "mlflow_run_id": run.summary.mlflow_run_id if run.summary else None,
                **(asdict(run.score) if run.score else dict.fromkeys(field.name for field in fields(Score))),
            }
            for run in runs
        ],
        "not_begun": not_begun(runs, planned),
        "settings": [{**asdict(setting), "before": _before(setting)} for setting in _settings(runs)],
    }


def not_begun(runs: Sequence[SweptRun], planned: Sequence[str]) -> list[str]:
    """Return the names of the planned runs that have not begun: all behind those that have ended."""
    return list(planned[len(runs) :])


def base_name(overrides: Sequence[str]) -> str:
    """Return what a setting is called in which nothing is swept but the seed: by what `--set` changes, if anything."""
    changed = short_overrides(overrides)
    if changed.startswith("+"):
        return f"as in the config, but for {changed[1:]} of --set"
    return changed or AS_IN_CONFIG


def note_result(tracker: Tracker, runs: Sequence[SweptRun], planned: Sequence[str], base: str = AS_IN_CONFIG) -> None:
    """Describe what the runs came to so far in the MLflow run of the sweep; `base` is its `base_name`."""
    settings = _settings(runs)
    tracker.log_json("sweep.json", result_of(runs, planned))
    tracker.set_tags({DESCRIPTION: _description(settings, runs, planned, base)})


def close_sweep(tracker: Tracker, runs: Sequence[SweptRun], planned: Sequence[str], status: str) -> None:
    """Write the means over its runs as metrics, and end the MLflow run of the sweep: `FINISHED`, `FAILED` or `KILLED`.

    They are written once: of means over ever more runs MLflow would draw a curve that falls or rises.
    """
    tracker.log_metrics(_metrics(_settings(runs)), step=0)
    tracker.set_tags({"rlft.status": status_text(runs, planned)})
    tracker.finish(status)


def status_text(runs: Sequence[SweptRun], planned: Sequence[str]) -> str:
    """Return how many of the planned runs ended well, and which have not begun."""
    ended = sum(run.exit_code == 0 for run in runs)
    missing = not_begun(runs, planned)
    more = f", and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    behind = f"; {len(missing)} not begun: {', '.join(missing[:_MOST_NAMED])}{more}" if missing else ""
    return f"{ended} of {len(planned)} runs ended well{behind}"


def table_of(runs: Sequence[SweptRun], title: str = "", base: str = AS_IN_CONFIG) -> Table:
    """Return what the runs came to, a row for each setting; that without swept ones is called `base`."""
    columns = ("setting", "runs", "before", "after", "95 % over seeds", "gain", "95 % interval")
    settings = _settings(runs)
    rows = tuple(_row(name or base, setting) for name, setting in zip(_names(settings), settings, strict=True))
    return Table(title, columns, rows)


def _settings(runs: Sequence[SweptRun]) -> list[SettingResult]:
    return of_settings([(run.changes, run.score) for run in runs])


def _metrics(settings: Sequence[SettingResult]) -> dict[str, float]:
    """Return the means as metrics; where settings are swept each has its own, named after it."""
    found = dict[str, float]()
    for label, setting in zip(_names(settings), settings, strict=True):
        end_of_name = f"/{label.replace('=', ' ')}" if label else ""
        before = _before(setting)
        start = None if before is None else Mean(before, None, None)
        for part, mean, over in (
            ("after", setting.after, OVER_SEEDS),
            ("before", start, ""),
            ("gain", setting.gain, ""),
        ):
            if mean is not None:
                found |= _named_ends(f"{PREFIX}/{part}", mean, over, end_of_name)
    return found


def _named_ends(name: str, mean: Mean, over: str, end_of_name: str) -> dict[str, float]:
    """Return a mean and the ends of its interval, if it has one, as metrics.

    `over` is what stands before `_low` and `_high`, so that a name means the same in a sweep and in its runs.
    """
    ends = {"": mean.value, f"{over}_low": mean.low, f"{over}_high": mean.high}
    return {f"{name}{end}{end_of_name}": value for end, value in ends.items() if value is not None}


def _before(setting: SettingResult) -> float | None:
    """Return the mean of what training started from; `None` where it is not known."""
    return None if setting.after is None or setting.gain is None else setting.after.value - setting.gain.value


def _description(settings: Sequence[SettingResult], runs: Sequence[SweptRun], planned: Sequence[str], base: str) -> str:
    headline = Headline(_sentence(settings, runs, len(planned)))
    told = [paragraph(block) for block in (headline, table_of(runs, base=base))]
    return "\n\n".join(told)


def _sentence(settings: Sequence[SettingResult], runs: Sequence[SweptRun], planned: int) -> str:
    scored = sum(setting.scored for setting in settings)
    kinds = f"{len(settings)} settings" if len(settings) > 1 else "one setting"
    ended = f"; {len(runs)} of {planned} planned runs have ended" if len(runs) < planned else ""
    return (
        f"{scored} of {len(runs)} runs of {kinds} have a result on the test tasks{ended}. The interval of the score is "
        "over seeds alone, on these test tasks; that of the gain is over seeds and tasks. What is over seeds is "
        "Student's, which takes scores for normal, so a seed that collapses makes it wrong; one run has no interval, "
        "nor have equal ones."
    )


def _names(settings: Sequence[SettingResult]) -> list[str]:
    """Return what each setting is called, all of them differently; "" is the config as it is."""
    return short_names([setting.changes for setting in settings])


def _row(name: str, setting: SettingResult) -> tuple[str, ...]:
    counted = f"{setting.scored} of {setting.runs}"
    start = _before(setting)
    if start is None or setting.after is None or setting.gain is None:
        return name, counted, "no result", "", "", "", ""
    before = f"{setting.metric} {start:.3f}"
    after, gain = f"{setting.after.value:.3f}", f"{setting.gain.value:+.3f}"
    return name, counted, before, after, _ends(setting.after), gain, _ends(setting.gain, "+")


def _ends(mean: Mean, sign: str = "") -> str:
    if mean.low is None or mean.high is None:
        return "none"
    return f"{mean.low:{sign}.3f} to {mean.high:{sign}.3f}"

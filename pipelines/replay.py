"""What `rescore` and `retrain` share: how they begin, and what is said of the code and the tasks that they use."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zenml import log_metadata
from zenml.metadata.metadata_types import MetadataType
from zenml.models import PipelineRunResponse

from mlops.home.folder import find_home
from mlops.home.processes import claimed
from mlops.ids import REPLAY_TAG
from mlops.registry.names import RUN_NAME_TAG
from mlops.runs.finding import attempts_of, folder_of, note_artifacts, root_run
from mlops.runs.identity import identity_facts, identity_tags, typed_command
from mlops.runs.labels import Labels
from mlops.runs.replayed import Source
from mlops.runs.resuming import HARNESS, REWARD, begun_with
from mlops.runs.runtime import Lent, current_run, shared_runtime
from mlops.runs.signals import signalled
from mlops.runs.store import RunStore
from mlops.summary.file import SUMMARY_FILE
from mlops.summary.replays import ReplaySummary, replay_blocks
from mlops.tracking.evaluation import KIND_TAG
from mlops.tracking.run import DESCRIPTION, MISSED_FILE, Tracker
from rlft.config import Config, DistributedConfig
from rlft.environments.fingerprints import EnvironmentFingerprints
from rlft.evaluation.comparison import compare
from rlft.files import write_file
from rlft.reporting.bars import Display
from rlft.texts.blocks import paragraph, plain
from rlft.texts.secrets import hide
from rlft.types import Evaluation


def begin_replay(distributed: DistributedConfig | None = None) -> tuple[Display, PipelineRunResponse]:
    """Prepare the process of a replay; returns what shows its stages, and ZenML's run."""
    display = Display()
    shared_runtime().lent = Lent(progress=display.report, distributed=distributed)
    return display, current_run()


def changed_sides(source: Source, now: EnvironmentFingerprints) -> list[str]:
    """Return which sides of the environment's code, `harness` and `reward`, differ from those of the run."""
    then = begun_with(attempts_of(source.run.found))
    current = {HARNESS: now.harness, REWARD: now.reward}
    return [side for side, digest in current.items() if side in then and then[side] != digest]


def difference(ours: Evaluation | None, theirs: Evaluation | None, metric: str) -> dict[str, Any] | None:
    """Return `ours` minus `theirs` on `test` as JSON, errors counted against either end; `None` if it is unknown."""
    if ours is None or theirs is None or not all("test" in each.splits for each in (ours, theirs)):
        return None
    one, other = ours.splits["test"], theirs.splits["test"]
    if metric not in one.per_task or metric not in other.per_task:
        return None
    found = compare(one, other, metric)
    if found is None:
        return None
    ends = {"low": found.low_with_errors, "high": found.high_with_errors}
    return {"before": found.before, "after": found.after, "mean": found.difference.mean, **ends} | {
        "tasks": found.difference.count
    }


def means(evaluation: Evaluation) -> Mapping[str, dict[str, float]]:
    """Return the means of an evaluation, {split: {metric: mean}}."""
    return {
        split: {name: interval.mean for name, interval in report.metrics.items()}
        for split, report in evaluation.splits.items()
    }


_SOURCE = f"rlft.{REPLAY_TAG}"  # of an MLflow run: the name of the run that it is made from
_SOURCE_RUN = f"{_SOURCE}.mlflow_run_id"


def experiment_of(source: Source) -> str:
    """Return the MLflow experiment of a run, in which its replays are, too."""
    settings = source.settings
    return str((settings.get("tracking") or {}).get("experiment") or settings["name"])


@contextmanager
def open_replay(
    summary: ReplaySummary,
    source: Source,
    config: Config,
    fingerprints: EnvironmentFingerprints,
    tracking_uri: str,
    labels: Labels,
    run: Any,
) -> Iterator[Tracker]:
    """Open the MLflow run of a replay, in the experiment of its source, and write its summary at the end.

    `run` is ZenML's. One that fails leaves a summary with the reason, and the error is raised again. A process that is
    killed leaves one that says `interrupted`, and the same command goes on from the cache.
    """
    home, first, started = find_home(), root_run(run), time.perf_counter()
    summary.pipeline_run_id, summary.source_mlflow_run_id = str(run.id), source.mlflow_run_id
    summary.command = typed_command()
    folder = folder_of(home, run)
    if tracking_uri == home.tracking_uri:
        RunStore(home).start(run, summary.name)
    write_file(folder / SUMMARY_FILE, summary.as_text())  # all that a kill leaves
    tags = {**_tags(summary, run), **identity_tags(config, labels)}
    tracker = Tracker(
        tracking_uri,
        experiment_of(source),
        str(first.id),
        first.name,
        artifact_location=home.mlflow_artifacts.as_uri() if tracking_uri == home.tracking_uri else None,
        tags=tags,
        missed_path=folder / MISSED_FILE,
    )
    tracker.set_tags(tags)  # one that a first attempt has made has those of that
    summary.mlflow_run_id = tracker.run_id
    RunStore(home).note(summary.name, str(run.id), mlflow_run_id=tracker.run_id)
    tracker.log_params(config.model_dump())
    tracker.log_json("identity/attempt-1.json", identity_facts(fingerprints, labels))
    ended = "FAILED"
    try:
        with claimed(folder):
            yield tracker
        summary.status, ended = "finished", "FINISHED"
    except BaseException as cause:
        if signalled() or isinstance(cause, KeyboardInterrupt):
            ended = "KILLED"
        else:
            summary.status, summary.error = "failed", hide(str(cause))
        raise
    finally:
        summary.seconds = time.perf_counter() - started
        _close(summary, folder, tracker, ended)


def _close(summary: ReplaySummary, folder: Path, tracker: Tracker, ended: str) -> None:
    root, store = str(summary.pipeline_run_id), RunStore(find_home())
    note_artifacts(store, summary.name, root)
    store.end(summary.name, root, "completed" if summary.status == "finished" else "failed")
    write_file(folder / SUMMARY_FILE, summary.as_text())
    tracker.set_tags({"rlft.status": summary.status, DESCRIPTION: _description(summary, tracker)})
    tracker.log_json("summary.json", dataclasses.asdict(summary))
    tracker.finish(ended)
    known: dict[str, MetadataType] = {"replay_of": summary.source, "replay_of_run": summary.source_run_id}
    known |= {"mlflow_run_id": tracker.run_id} if tracker.run_id else {}
    log_metadata(metadata=known, run_id_name_or_prefix=root)


def _tags(summary: ReplaySummary, run: Any) -> dict[str, str]:
    found = {KIND_TAG: summary.kind, "zenml.run_id": str(run.id), RUN_NAME_TAG: run.name, _SOURCE: summary.source}
    return found | ({_SOURCE_RUN: summary.source_mlflow_run_id} if summary.source_mlflow_run_id else {})


def _description(summary: ReplaySummary, tracker: Tracker) -> str:
    """Return what came of a replay in Markdown, with a link to the run that it is made from."""
    found = json.loads(summary.as_text())
    source = plain(summary.source)
    if summary.source_mlflow_run_id and tracker.experiment_id:
        source = f"[{source}](#/experiments/{tracker.experiment_id}/runs/{summary.source_mlflow_run_id})"
    said = [*map(paragraph, replay_blocks(found)), f"This is a {summary.kind} of the run {source}."]
    return "\n\n".join(said)

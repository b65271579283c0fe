"""What `evaluate`, `rescore` and `retrain` share: how they begin and end, and what is said of the code they use."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
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
from mlops.summary.file import SUMMARY_FILE, EvaluationSummary
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


def begin(distributed: DistributedConfig | None = None) -> tuple[Display, PipelineRunResponse]:
    """Prepare this process; returns what shows its stages, and ZenML's run."""
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
    return found and found.as_json()


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
def keeping(
    summary: EvaluationSummary | ReplaySummary,
    name: str,
    run: Any,
    tracking_uri: str,
    close: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Note that an evaluation or a replay goes on, and write its summary at the end, after which `close` is called.

    `run` is ZenML's, which the home calls `name`, and `tracking_uri` MLflow's address. One that fails leaves a summary
    with the reason, and the error is raised again. A process that is killed leaves one that says `interrupted`, and the
    same command goes on from the cache.
    """
    home, root, started = find_home(), str(run.id), time.perf_counter()
    summary.pipeline_run_id, summary.command = root, typed_command()
    folder, store, in_home = folder_of(home, run), RunStore(home), tracking_uri == home.tracking_uri
    if in_home:
        store.start(run, name)
    write_file(folder / SUMMARY_FILE, summary.as_text())  # all that a kill leaves
    try:
        with claimed(folder):
            yield
        summary.status = "finished"
    except BaseException as cause:
        if not (signalled() or isinstance(cause, KeyboardInterrupt)):
            summary.status, summary.error = "failed", hide(str(cause))
        raise
    finally:
        summary.seconds = summary.seconds or time.perf_counter() - started
        if in_home:
            note_artifacts(store, name, root)
            store.end(name, root, "completed" if summary.status == "finished" else "failed")
        write_file(folder / SUMMARY_FILE, summary.as_text())
        close()


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

    `run` is ZenML's.
    """
    home, first = find_home(), root_run(run)
    summary.source_mlflow_run_id = source.mlflow_run_id
    tags = {**_tags(summary, run), **identity_tags(config, labels)}
    tracker = Tracker(
        tracking_uri,
        experiment_of(source),
        str(first.id),
        first.name,
        artifact_location=home.mlflow_artifacts.as_uri() if tracking_uri == home.tracking_uri else None,
        tags=tags,
        missed_path=folder_of(home, run) / MISSED_FILE,
    )
    tracker.set_tags(tags)  # one that a first attempt has made has those of that
    summary.mlflow_run_id = tracker.run_id
    with keeping(summary, summary.name, run, tracking_uri, partial(_close, summary, tracker)):
        RunStore(home).note(summary.name, str(run.id), mlflow_run_id=tracker.run_id)
        tracker.log_params(config.model_dump())
        tracker.log_json("identity/attempt-1.json", identity_facts(fingerprints, labels))
        yield tracker


def _close(summary: ReplaySummary, tracker: Tracker) -> None:
    tracker.set_tags({"rlft.status": summary.status, DESCRIPTION: _description(summary, tracker)})
    tracker.log_json("summary.json", dataclasses.asdict(summary))
    tracker.finish({"finished": "FINISHED", "failed": "FAILED"}.get(summary.status, "KILLED"))
    known: dict[str, MetadataType] = {"replay_of": summary.source, "replay_of_run": summary.source_run_id}
    known |= {"mlflow_run_id": tracker.run_id} if tracker.run_id else {}
    log_metadata(metadata=known, run_id_name_or_prefix=str(summary.pipeline_run_id))


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

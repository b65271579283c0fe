"""What a rescoring or a retraining writes: its MLflow run, which names the run that it is from, and its summary."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zenml import log_metadata
from zenml.metadata.metadata_types import MetadataType

from mlops.home.folder import find_home
from mlops.home.processes import forget_process, note_process
from mlops.ids import REPLAY_TAG
from mlops.registry.names import RUN_NAME_TAG
from mlops.runs.finding import root_run
from mlops.runs.identity import identity_facts, identity_tags, typed_command
from mlops.runs.labels import Labels
from mlops.runs.noting import note_artifacts, seen_on_stack
from mlops.runs.replayed import Source
from mlops.runs.store import RunStore
from mlops.runtime.signals import signalled
from mlops.summary.replay_blocks import replay_blocks
from mlops.summary.replays import ReplaySummary, keep_replay
from mlops.tracking.evaluation_runs import KIND_TAG
from mlops.tracking.run import DESCRIPTION, Tracker
from rlft.config import Config
from rlft.fingerprints.identity import EnvironmentFingerprints
from rlft.markdown import paragraph, plain
from rlft.secrets import hide

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
    note_process(home, str(run.id), run.name, resumes=False)
    if tracking_uri == home.tracking_uri:
        RunStore(home).start(run, summary.name)
    keep_replay(home, summary)  # all that a kill leaves
    tags = {**_tags(summary, run), **identity_tags(config, labels)}
    tracker = Tracker.open(
        tracking_uri,
        experiment_of(source),
        str(first.id),
        first.name,
        artifact_location=home.mlflow_artifacts.as_uri() if tracking_uri == home.tracking_uri else None,
        tags=tags,
        missed_path=home.missed_file(str(first.id)),
    )
    tracker.set_tags(tags)  # one that a first attempt has made has those of that
    summary.mlflow_run_id = tracker.run_id
    RunStore(home).note(summary.name, str(run.id), mlflow_run_id=tracker.run_id)
    tracker.log_params(config.model_dump())
    tracker.log_json("identity/attempt-1.json", identity_facts(fingerprints, labels))
    ended = "FAILED"
    try:
        with seen_on_stack(tracking_uri, home, run.id):
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
        _close(summary, tracker, labels, ended)


def _close(summary: ReplaySummary, tracker: Tracker, labels: Labels, ended: str) -> None:
    home, root = find_home(), str(summary.pipeline_run_id)
    store = RunStore(home)
    note_artifacts(store, summary.name, root)
    store.end(summary.name, root, "completed" if summary.status == "finished" else "failed")
    keep_replay(home, summary)
    tracker.set_tags({"rlft.status": summary.status, DESCRIPTION: _description(summary, tracker, labels.note)})
    tracker.log_json("summary.json", dataclasses.asdict(summary))
    tracker.finish(ended)
    known: dict[str, MetadataType] = {"replay_of": summary.source, "replay_of_run": summary.source_run_id}
    known |= {"mlflow_run_id": tracker.run_id} if tracker.run_id else {}
    log_metadata(metadata=known, run_id_name_or_prefix=root)
    forget_process(home, root)


def _tags(summary: ReplaySummary, run: Any) -> dict[str, str]:
    found = {KIND_TAG: summary.kind, "zenml.run_id": str(run.id), RUN_NAME_TAG: run.name, _SOURCE: summary.source}
    return found | ({_SOURCE_RUN: summary.source_mlflow_run_id} if summary.source_mlflow_run_id else {})


def _description(summary: ReplaySummary, tracker: Tracker, note: str) -> str:
    """Return what came of a replay in Markdown, with a link to the run that it is made from."""
    found = json.loads(summary.as_text())
    source = plain(summary.source)
    if summary.source_mlflow_run_id and tracker.experiment_id:
        source = f"[{source}](#/experiments/{tracker.experiment_id}/runs/{summary.source_mlflow_run_id})"
    said = [*map(paragraph, replay_blocks(found)), f"This is a {summary.kind} of the run {source}."]
    return "\n\n".join([*said, *([note] if note else [])])

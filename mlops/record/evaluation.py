"""Opens and closes what an evaluation leaves: the note of its process, its signs of life on a stack, its summary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zenml import log_metadata

from mlops.home.folder import find_home
from mlops.home.processes import forget_process, note_process
from mlops.runs.identity import typed_command
from mlops.runs.noting import note_artifacts, seen_on_stack
from mlops.runs.store import RunStore
from mlops.runtime.signals import signalled
from mlops.summary.evaluations import EvaluationSummary, keep_evaluation
from rlft.secrets import hide


@contextmanager
def open_evaluation(summary: EvaluationSummary, tracking_uri: str, run: Any) -> Iterator[None]:
    """Note that an evaluation goes on, and write its summary at the end.

    `run` is ZenML's and `tracking_uri` MLflow's address. One that fails leaves a summary with the reason, and the error
    is raised again. A process that is killed leaves one that says `interrupted`.
    """
    home, run_id, started = find_home(), str(run.id), time.perf_counter()
    summary.pipeline_run_id, summary.command = run_id, typed_command()
    note_process(home, run_id, run.name, resumes=False)
    store, in_home = RunStore(home), tracking_uri == home.tracking_uri
    if in_home:
        store.start(run, run.name)
    keep_evaluation(home, summary)  # all that a kill leaves
    try:
        with seen_on_stack(tracking_uri, home, run.id):
            yield
        if summary.mlflow_run_id is not None:
            log_metadata(metadata={"mlflow_run_id": summary.mlflow_run_id}, run_id_name_or_prefix=run_id)
    except Exception as cause:
        if not signalled():
            summary.status, summary.error = "failed", hide(str(cause))
        raise
    finally:
        if summary.status != "finished":
            summary.seconds = time.perf_counter() - started
        keep_evaluation(home, summary)
        if in_home:
            note_artifacts(store, run.name, run_id)
            store.end(run.name, run_id, "completed" if summary.status == "finished" else "failed")
        forget_process(home, run_id)

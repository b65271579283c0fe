"""The summary of a past run, which is that of the newest attempt at it that has one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.summary.file import SUMMARY_ARTIFACT, read_summary, summary_of_text
from mlops.summary.summary import Summary
from rlft.errors import TrackerError


def stored_summary(home: Home, run: Any) -> Summary | None:
    """Return what came of a run (ZenML's response), as the home or the run's MLflow has it; `None` if neither does.

    Of a run on a stack another home may have the file: whoever shares the stack reads it from MLflow.
    """
    from mlops.runs.finding import attempts_of

    attempts = attempts_of(run)  # newest first; the one that is asked for may have been cut short and resumed
    found = (read_summary(home, str(attempt.id)) for attempt in attempts)
    own = next((summary for summary in found if summary is not None), None)
    if own is not None and own.status != "running":
        return own
    noted = next((noted for attempt in attempts if (noted := mlflow_run_of(attempt))), None)
    return (noted and summary_in_mlflow(*noted)) or own


def mlflow_run_of(run: Any) -> tuple[str, str] | None:
    """Return the address of a stack's MLflow and the id of a run's run in it; `None` for a run in a home."""
    from mlops.tracking.address import HOME

    address = (run.config.parameters or {}).get("tracking_uri")
    run_id = run.run_metadata.get("mlflow_run_id")
    return (str(address), str(run_id)) if address and run_id and address != HOME else None


def summary_in_mlflow(address: str, run_id: str) -> Summary | None:
    """Return the summary among the artifacts of an MLflow run; `None` if there is none, or MLflow does not answer."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    from mlops.tracking.address import tracking_address
    from mlops.tracking.answers import answering

    client = MlflowClient(tracking_uri=tracking_address(address))
    try:
        with answering(address), tempfile.TemporaryDirectory() as folder:
            file = Path(client.download_artifacts(run_id, SUMMARY_ARTIFACT, folder))
            return summary_of_text(file.read_text(encoding="utf-8"), f"{SUMMARY_ARTIFACT} of the MLflow run {run_id}")
    except (TrackerError, MlflowException, OSError):  # of a run that was killed there is none
        return None

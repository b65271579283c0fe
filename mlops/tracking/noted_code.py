"""The exact code of a run, as it has noted it in MLflow."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from mlops.tracking.answers import answering
from rlft.errors import TrackerError

FOLDER = "identity"


def noted_code(address: str, run_id: str | None) -> dict[str, Any]:
    """Return what the newest attempt at a run noted of its code (`mlops.runs.identity.identity_facts`).

    It is empty where nothing is noted, or MLflow does not answer: a page can do without it.
    """
    if run_id is None:
        return {}
    client = MlflowClient(tracking_uri=address)
    try:
        with answering(address), tempfile.TemporaryDirectory() as folder:
            noted = [file.path for file in client.list_artifacts(run_id, FOLDER)]
            if not noted:
                return {}
            newest = max(noted, key=lambda path: int("0" + "".join(re.findall(r"\d+", Path(path).name))))
            return json.loads(Path(client.download_artifacts(run_id, newest, folder)).read_text("utf-8"))
    except TrackerError:
        return {}

"""What past runs of an experiment have taken, step by step, read from the databases of a home, without ZenML."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home
from mlops.ids import PIPELINE
from mlops.runs.settings import stored_config
from mlops.summary.file import read_summary
from rlft.config import Config
from rlft.errors import RlftError
from rlft.estimation.records import PastRun, PastStep, fits

logger = logging.getLogger(__name__)
_RUNS = """
SELECT run.id, run.name, run.start_time, run.end_time, snapshot.pipeline_configuration FROM pipeline_run AS run
JOIN pipeline ON pipeline.id = run.pipeline_id AND pipeline.name = ?
JOIN pipeline_snapshot AS snapshot ON snapshot.id = run.snapshot_id
WHERE run.status = 'completed' ORDER BY run.created DESC LIMIT 200
"""
_STEPS = """
SELECT step.name, step.start_time, step.end_time,
  max(CASE WHEN noted.key = 'rollouts' THEN CAST(noted.value AS INTEGER) END),
  max(CASE WHEN noted.key = 'sampled_tokens' THEN CAST(noted.value AS INTEGER) END)
FROM step_run AS step
LEFT JOIN step_run_output_artifact AS output ON output.step_id = step.id
LEFT JOIN run_metadata_resource AS described ON described.resource_id = output.artifact_id
LEFT JOIN run_metadata AS noted ON noted.id = described.run_metadata_id
WHERE step.pipeline_run_id = ? AND step.status = 'completed' AND step.end_time IS NOT NULL
GROUP BY step.id ORDER BY step.start_time
"""


def past_runs(home: Home, config: Config, most: int = 5) -> list[PastRun]:
    """Return the newest runs, at most so many, that tell what one of this config takes; the newest first.

    They are of the same experiment, with the same model, engine and environment, have come to their end, and have done
    rounds themselves and not taken all from the cache. A database that cannot be read has none.
    """
    found: list[PastRun] = []
    try:
        with opened(ZENML.file(home), seconds=5) as database:
            for row in database.execute(_RUNS, (PIPELINE,)).fetchall():
                run = _past_run(home, database, config, *row)
                if run is not None and run.is_usable and fits(run, config):
                    found.append(run)
                if len(found) == most:
                    break
    except sqlite3.Error as cause:
        if ZENML.file(home).is_file():
            logger.warning("past runs are not known, as ZenML's database cannot be read: %s", cause)
    return found


def _past_run(
    home: Home, database: sqlite3.Connection, config: Config, key: str, name: str, began: str, ended: str, text: str
) -> PastRun | None:
    """Return a run of this experiment; `None` for one of another, or whose settings this rlft does not read."""
    parameters: Mapping[str, Any] = json.loads(text).get("parameters") or {}
    content = parameters.get("config") or {}
    if content.get("name") != config.name:
        return None
    try:
        settings = stored_config(content, name).model_dump(mode="json")
        summary = read_summary(home, f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}")
    except RlftError as cause:
        logger.debug("%s is left out: %s", name, cause)
        return None
    steps = [
        PastStep(step, _between(start, end), rollouts or 0, tokens or 0)
        for step, start, end, rollouts, tokens in database.execute(_STEPS, (key,))
    ]
    seconds = summary.seconds.total if summary and summary.seconds.total else _between(began, ended)
    memory = (summary.memory_megabytes, summary.gpu_memory_megabytes) if summary else (None, None)
    known = [None if each is None else each * 1e6 for each in memory]
    return PastRun(name, settings, steps, seconds, *known)


def _between(began: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()

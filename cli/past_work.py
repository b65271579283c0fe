"""What past runs of an experiment have taken, step by step, read from their files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from mlops.home.folder import Home
from mlops.ids import PIPELINE
from mlops.runs.store import LocalRun, RunStore, stored_config
from mlops.summary.file import read_summary
from rlft.config import Config
from rlft.errors import RlftError
from rlft.estimation.records import PastRun, PastStep, fits

logger = logging.getLogger(__name__)


def past_runs(home: Home, config: Config, most: int = 5) -> list[PastRun]:
    """Return the newest runs, at most so many, that tell what one of this config takes; the newest first.

    They are of the same experiment, with the same model, engine and environment, have come to their end, and have done
    rounds themselves and not taken all from the cache.
    """
    runs = (_past_run(run, config) for run in RunStore(home).runs())
    return list(islice((run for run in runs if run is not None and run.is_usable and fits(run, config)), most))


def _past_run(run: LocalRun, config: Config) -> PastRun | None:
    """Return a run of this experiment that has ended; `None` for another, or whose settings this rlft does not read."""
    last = run.attempts[0]
    if run.pipeline != PIPELINE or last["status"] != "completed":
        return None
    try:
        if run.config.get("name") != config.name:
            return None
        settings = stored_config(run.config, run.name).model_dump(mode="json")
        summary = read_summary(run.folder)
    except RlftError as cause:
        logger.debug("%s is left out: %s", run.name, cause)
        return None
    steps = [
        PastStep(name, _between(step), step.get("rollouts", 0), step.get("sampled_tokens", 0))
        for name, step in run.steps.items()
        if not step["cached"] and step["began"] and step["ended"]
    ]
    seconds = summary.seconds.total if summary and summary.seconds.total else _between(last)
    memory = (summary.memory_megabytes, summary.gpu_memory_megabytes) if summary else (None, None)
    known = [None if each is None else each * 1e6 for each in memory]
    return PastRun(run.name, settings, steps, seconds, *known)


def _between(known: Mapping[str, Any]) -> float:
    return (datetime.fromisoformat(known["ended"]) - datetime.fromisoformat(known["began"])).total_seconds()

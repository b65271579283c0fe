"""Whether this rlft reads a run that is to go on: asked before anything of it is changed."""

from __future__ import annotations

from collections.abc import Iterable

from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.runs.settings import stored_config
from mlops.summary.file import read_summary


def check_readable(home: Home, attempts: Iterable[PipelineRunResponse]) -> None:
    """Raise FormatVersionError or ConfigError if another rlft has made one of the attempts, which is not read here."""
    for attempt in attempts:
        if content := (attempt.config.parameters or {}).get("config"):
            stored_config(content, attempt.name)
        read_summary(home, str(attempt.id))

"""Whether this rlft reads a run that is to go on: asked before anything of it is changed."""

from __future__ import annotations

from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.runs.finding import attempts_of
from mlops.runs.settings import stored_config
from mlops.summary.file import read_summary


def check_readable(home: Home, run: PipelineRunResponse) -> None:
    """Raise OtherFormError or ConfigError if another rlft has made an attempt at this run that this one cannot read."""
    for attempt in attempts_of(run):
        if content := (attempt.config.parameters or {}).get("config"):
            stored_config(content, attempt.name)
        read_summary(home, str(attempt.id))

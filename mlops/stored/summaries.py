"""The summary of a past run, which is that of the newest attempt at it that has one."""

from __future__ import annotations

from typing import Any

from mlops.home.folder import Home
from mlops.summary.file import read_summary
from mlops.summary.summary import Summary


def stored_summary(home: Home, run: Any) -> Summary | None:
    """Return what the home holds of a run (ZenML's response); `None` if it holds no summary of it."""
    from mlops.runs.finding import attempts_of

    found = (read_summary(home, str(attempt.id)) for attempt in [run, *attempts_of(run)])
    return next((summary for summary in found if summary is not None), None)

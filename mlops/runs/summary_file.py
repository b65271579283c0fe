"""The summaries of a home's runs, as files: found, read, and ended where a run was cut off."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from mlops.home.folder import Home
from rlft.files import write_file


def read_summary(home: Home, run_id: str) -> dict[str, Any] | None:
    """The summary of a run; `None` where there is none that can be read."""
    try:
        found = json.loads(home.summary_file(run_id).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "status" in found else None


def end_summary(home: Home, run_id: str, reason: str, seconds: float | None = None) -> bool:
    """Let a summary that still says `running` say that the run failed, why, and after how many seconds if known.

    One that was damaged is written anew, with nothing measured. Gives whether there was something to change.
    """
    if not home.summary_file(run_id).is_file():
        return False
    left = read_summary(home, run_id)
    if left is None:
        from mlops.runs.summary import empty_summary

        left = {**empty_summary("running"), "pipeline_run_id": run_id}
    if left["status"] != "running":
        return False
    spent = {} if seconds is None else {"total": seconds}
    left |= {"status": "failed", "error": reason, "seconds": {**left.get("seconds", {}), **spent}}
    write_file(home.summary_file(run_id), json.dumps(left, indent=1))
    return True


def summary_since(home: Home, started: float) -> dict[str, Any]:
    """The summary of the run that this process began since `started`, or an empty one."""
    from mlops.runs.summary import empty_summary

    for file in (home.root / "runs").glob("*.json"):
        with suppress(OSError):  # another process has removed it
            if file.name.count(".") == 1 and file.stat().st_mtime >= started:
                found = read_summary(home, file.stem)
                if found is not None and found.get("process") == os.getpid():
                    return found
    return empty_summary("failed")


def failed(summary: dict[str, Any], reason: str) -> dict[str, Any]:
    """The summary of a run that failed."""
    return {**summary, "status": "failed", "error": reason}

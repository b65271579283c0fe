"""How a person goes on with what was cut short: a run is resumed, and the command of all else is given again."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from shlex import quote

from mlops.home.folder import Home
from mlops.ids import EVALUATE
from mlops.runs.listed import ListedRun
from mlops.runs.listing import list_runs
from mlops.summary import evaluations, replays


def way_on(home: Home, run_id: str, name: str) -> str:
    """Return the command that goes on with an attempt at a run; empty if that work was finished since."""
    run = next((run for run in list_runs(home).runs if any(each.id == run_id for each in run.attempts)), None)
    if run is None or run.kind == "training":
        return f"rlft resume {quote(name)}"
    file = _file(home, run, run_id)
    command = str(_read(file).get("command") or "")
    if command and _is_finished_since(home, command, file):
        return ""
    kind = EVALUATE if run.kind == "evaluation" else run.kind
    return command or f"give its `rlft {kind}` command again: what is done is in the cache"


def _file(home: Home, run: ListedRun, run_id: str) -> Path:
    is_evaluation = run.kind == "evaluation"
    return evaluations.evaluation_file(home, run_id) if is_evaluation else replays.replay_file(home, run_id)


def _is_finished_since(home: Home, command: str, file: Path) -> bool:
    """Return whether the same command has come to its end after the one that left this summary."""
    for ending in (evaluations.ENDING, replays.ENDING):
        for other in (home.root / "runs").glob(f"*{ending}"):
            with suppress(OSError):
                told = _read(other)
                is_later = other.stat().st_mtime > file.stat().st_mtime
                if is_later and (told.get("command"), told.get("status")) == (command, "finished"):
                    return True
    return False


def _read(file: Path) -> dict[str, object]:
    """Return what a summary holds; nothing of one that cannot be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""What a process that ends leaves for those who come after: the trace of an error, the summary that was asked for."""

from __future__ import annotations

import json
import tempfile
import traceback
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from mlops.display.terminal import errors
from mlops.home.folder import find_home
from mlops.runs.summary import Summary
from mlops.runs.summary_file import summary_text
from rlft.errors import ConfigError, StorageError
from rlft.files import write_file
from rlft.secrets import hide
from rlft.visible import visible

_MOST_BYTES = 16 << 20  # of what may be a summary


def keep_trace(error: BaseException) -> Path:
    """Write an error's trace, without secrets and safe to look at in a terminal, to a file; returns the file.

    It goes to the home's `logs`, else to the folder of temporary files. What no folder takes is printed.
    """
    text = visible(hide("".join(traceback.format_exception(error))))
    name = f"rlft-error-{datetime.now():%Y%m%d-%H%M%S}.txt"
    home = find_home()
    for folder in (home.root / "logs", Path(tempfile.gettempdir())):
        try:
            if folder.parent == home.root:
                home.make()
                folder.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except (OSError, StorageError) as cause:
            errors.print(f"{folder} cannot be written: {cause}")
        else:
            return folder / name
    errors.print(text)
    return Path("(printed above)")


def remove_older(target: Path) -> None:
    """Remove an older summary from where one will be written, so that nobody takes it for that of this run.

    Raises ConfigError for a file that holds something else.
    """
    try:
        is_small = target.stat().st_size <= _MOST_BYTES
        text = target.read_text(encoding="utf-8") if is_small else "not read"
        if text.strip():  # an empty file is the user's own preparation, as `mktemp` makes it
            content = json.loads(text)
            if not isinstance(content, dict) or not {"status", "pipeline_run_id"} <= set(content):
                raise ValueError("it has no status of a run")
    except (OSError, ValueError, RecursionError) as cause:
        raise ConfigError(
            "this file is no summary of a run, so it is not overwritten",
            where=str(target),
            fix="let --summary name another file, or remove this one",
        ) from cause
    with suppress(OSError):  # why it cannot be replaced is said when it is written
        target.unlink()


def write_summary(target: Path, content: Summary) -> None:
    """Write a summary to the file that `--summary` names; print why if it cannot be written."""
    try:
        write_file(target, summary_text(content))
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")

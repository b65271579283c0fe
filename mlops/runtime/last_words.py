"""What a process that ends leaves for those who come after: the trace of an error, the summary that was asked for."""

from __future__ import annotations

import tempfile
import traceback
from datetime import datetime
from pathlib import Path

from mlops.display.terminal import errors
from mlops.home.folder import find_home
from mlops.summary.file import summary_text
from mlops.summary.summary import Summary
from rlft.errors import StorageError
from rlft.files import write_file
from rlft.secrets import hide
from rlft.visible import visible


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


def write_summary(target: Path, content: Summary) -> bool:
    """Write a run's summary to the file that `--summary` names, as `write_asked` does."""
    return write_asked(target, summary_text(content))


def write_asked(target: Path, text: str) -> bool:
    """Write the summary of a command to the file that `--summary` names; print why, and return False, if that fails.

    It is a copy for the caller, and what the command has done is told in any case.
    """
    try:
        write_file(target, text)
    except OSError as cause:
        errors.print(f"the summary could not be written to {target}: {cause}")
        return False
    return True

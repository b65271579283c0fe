"""What a killed process leaves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rlft.files import folder_prefix


def left_behind(kind: str, parent: Path) -> Path:
    """A temporary folder whose process is dead."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = parent / f"{folder_prefix(kind).removesuffix(f'{os.getpid()}-')}{dead.pid}-x"
    folder.mkdir()
    return folder

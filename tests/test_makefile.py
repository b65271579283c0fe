"""What `make setup` does beside installing packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_what_setup_imports_for_the_compiler_can_be_imported(tmp_path):
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.replace("\\\n", "")
    (command,) = re.findall(r"^folder=.*$", recipe, re.MULTILINE)
    done = subprocess.run(
        ["sh", "-c", command.replace(".venv/bin/python", sys.executable)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr

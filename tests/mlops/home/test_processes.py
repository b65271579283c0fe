"""What runs leave in their home lets other processes know of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlops.home.folder import PROJECT, Home
from mlops.home.processes import claimed
from rlft.errors import RlftError

HOLDER = """
import sys, time
from pathlib import Path
from mlops.home.folder import Home
from mlops.home.processes import claimed
with claimed(Home(Path(sys.argv[1])), "first", None):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_name_is_held_by_one_process_until_that_ends_in_any_way(tmp_path):
    home = Home(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(RlftError, match=f"process {other.pid} has begun first"), claimed(home, "first", None):
            pass
        with claimed(home, "second", None), claimed(home, "first", "a stack of that name"):
            pass
        other.kill()
    with claimed(home, "first", None):
        pass

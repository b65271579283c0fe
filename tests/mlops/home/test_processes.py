"""What runs leave in their home lets other processes know of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlops.home.folder import PROJECT
from mlops.home.processes import NameHeldError, claimed, goes_on
from rlft.errors import RlftError

HOLDER = """
import sys, time
from pathlib import Path
from mlops.home.processes import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_name_is_held_by_one_process_until_that_ends_in_any_way(tmp_path):
    folder = tmp_path / "first"
    assert not goes_on(folder)
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(RlftError, match="another process has begun first"), claimed(folder):
            pass
        assert goes_on(folder)
        with claimed(tmp_path / "second"):
            pass
        other.kill()
    assert not goes_on(folder)
    with claimed(folder), claimed(folder):
        assert not goes_on(folder)  # in another process


def test_a_run_whose_folder_is_removed_while_it_is_waited_for_is_held_by_another(tmp_path, monkeypatch):
    def removed(lock, **_):
        raise FileNotFoundError(lock.lock_file)

    monkeypatch.setattr("filelock.FileLock.acquire", removed)
    with pytest.raises(NameHeldError), claimed(tmp_path / "first"):
        pass

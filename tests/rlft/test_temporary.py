"""Temporary folders: whose are removed."""

import os
import platform

from rlft.temporary import folder_prefix, remove_left_behind
from tests.left_behind import left_behind


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path):
    machine, dead = f"rlft-weights-{platform.node()}-", left_behind("weights", tmp_path).name.split("-")[-2]
    stay = [
        f"{machine}{os.getpid()}-x",  # its process lives
        f"rlft-weights-elsewhere-{dead}-x",  # a process of another container
        f"{machine}{dead}-{os.getpid()}-x",  # a process of a machine whose name goes on with a dead one's number
        f"rlft-adapter-{platform.node()}-{dead}-x",  # another kind
        f"{machine}{dead}x-y",  # nobody's
    ]
    for folder in (tmp_path / name for name in stay):
        folder.mkdir()
        (folder / "file").write_text("x")
    remove_left_behind("weights", tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted(stay)


def test_a_folder_of_this_process_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"{folder_prefix('weights')}x").mkdir()
    remove_left_behind("weights")
    assert len(list(tmp_path.iterdir())) == 1

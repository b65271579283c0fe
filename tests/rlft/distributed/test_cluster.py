"""How Ray is started on this machine: where its files are, and what is said if it does not start."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

from rlft.distributed.cluster import make_folder
from rlft.errors import DistributedError
from tests.left_behind import left_behind

# What Ray puts below its folder, with the largest number that Linux gives a process; a socket's path has 107 bytes.
SOCKET = "session_2026-11-27_17-44-27_123456_4194304/sockets/plasma_store"


@pytest.mark.parametrize("host", ["h", "ip-10-0-0-7.eu-central-1.compute.internal", 63 * "h"])
@pytest.mark.parametrize("deep", [False, True])
def test_rays_sockets_have_short_paths_whatever_the_machine_and_tmpdir_are_called(tmp_path, monkeypatch, host, deep):
    parent = tmp_path / (100 * "d") if deep else Path("/tmp")
    parent.mkdir(exist_ok=True)
    monkeypatch.setattr("platform.node", lambda: host)
    monkeypatch.setattr("tempfile.tempdir", str(parent))
    monkeypatch.setattr("os.getpid", lambda: 4194304)
    folder = make_folder()
    try:
        assert len(os.fsencode(folder / SOCKET)) <= 107
        assert folder.is_dir()
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(folder)


def test_rays_files_are_beside_other_temporary_ones_where_paths_are_short_enough(monkeypatch):
    # With a process number of one digit: 14 bytes of /tmp/rXXXXXXXX, 29 of the folder in it, 58 of the socket.
    short = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    monkeypatch.setattr("os.getpid", lambda: 7)
    monkeypatch.setattr("tempfile.tempdir", str(short))
    try:
        assert make_folder().parent == short
    finally:
        shutil.rmtree(short)


@pytest.mark.parametrize("deep", [False, True])
def test_what_a_killed_run_left_of_ray_is_removed(tmp_path, monkeypatch, deep):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / (100 * "d")) if deep else "/tmp")
    left = left_behind("ray", Path("/tmp"), short=True)
    assert not psutil.pid_exists(int(left.name.split("-")[-2]))
    folder = make_folder()
    try:
        assert not left.exists()
        again = make_folder()
        assert folder.exists()  # this process lives
        shutil.rmtree(again)
    finally:
        shutil.rmtree(folder)


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setattr("rlft.distributed.cluster._SOCKET_BYTES", 1000)
    with pytest.raises(DistributedError, match="no folder for Ray can be made") as caught:
        make_folder()
    assert str(tmp_path / "file") in caught.value.fix

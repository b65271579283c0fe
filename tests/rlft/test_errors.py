"""Errors that come from another process are the same there and here."""

import errno
import os
import pickle
import sqlite3

import pytest
import torch

from rlft.errors import DamagedError, DistributedError, NotReadyError, shortage_of


def test_an_error_can_be_told_to_another_process():
    one = DamagedError("changed", where="a/file", run="r", step="s")
    several = NotReadyError([DistributedError("none", where="there", fix="do"), DistributedError("too few")])
    for error in (one, several):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
    assert (pickle.loads(pickle.dumps(one)).run, pickle.loads(pickle.dumps(one)).step) == ("r", "s")
    assert [str(each) for each in pickle.loads(pickle.dumps(several)).problems] == [str(e) for e in several.problems]


def raised(function):
    """The error that a function raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    return caught.value


def test_real_errors_are_known(tmp_path, monkeypatch):
    def full_database():
        database = sqlite3.connect(tmp_path / "a.db")
        database.execute("PRAGMA max_page_count = 2")
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")

    def read_only_database():
        sqlite3.connect(tmp_path / "b.db").execute("CREATE TABLE t (x)")
        sqlite3.connect(f"file:{tmp_path / 'b.db'}?mode=ro", uri=True).execute("INSERT INTO t VALUES (1)")

    def full_device():
        with open("/dev/full", "w") as file:
            file.write("x")

    assert shortage_of(raised(full_database)) == "disk"
    assert shortage_of(raised(full_device)) == "disk"
    assert shortage_of(raised(read_only_database)) == "disk"
    assert shortage_of(raised(lambda: torch.empty(10**15))) == "memory"
    assert shortage_of(raised(lambda: bytearray(1 << 62))) == "memory"
    assert shortage_of(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")) == "gpu"


def test_what_an_error_was_raised_from_counts():
    inner = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wrapped = RuntimeError("the step failed")
    wrapped.__cause__ = ValueError("in between")
    wrapped.__cause__.__context__ = inner
    assert shortage_of(wrapped) == "disk"
    inner.__context__ = wrapped  # a circle ends
    assert shortage_of(wrapped) == "disk"


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.ENOENT, "absent"), KeyError("disk")])
def test_other_errors_are_none_of_these(error):
    assert shortage_of(error) is None

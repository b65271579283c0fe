"""Errors that come from another process are the same there and here."""

import pickle

from rlft.errors import DamagedError, DistributedError, NotReadyError


def test_an_error_can_be_told_to_another_process():
    one = DamagedError("changed", where="a/file", run="r", step="s")
    several = NotReadyError([DistributedError("none", where="there", fix="do"), DistributedError("too few")])
    for error in (one, several):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
    assert (pickle.loads(pickle.dumps(one)).run, pickle.loads(pickle.dumps(one)).step) == ("r", "s")
    assert [str(each) for each in pickle.loads(pickle.dumps(several)).problems] == [str(e) for e in several.problems]

"""What is said of a disk or a store that fails. With a real store: tests/team/test_team.py."""

from __future__ import annotations

import pytest

from materializers.sealed import reading, writing
from rlft.errors import StorageError

# What botocore raises of a server that is away; tests need not have it.
AWAY = type("EndpointConnectionError", (Exception,), {"__module__": "botocore.exceptions"})


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (
            AWAY("Could not connect"),
            "as its store does not answer: Could not connect\n.*see that the artifact store can be",
        ),
        (AWAY(), "as its store does not answer: EndpointConnectionError"),
        (TimeoutError("no answer"), "as its store does not answer"),
        (PermissionError("Access Denied"), "could not be written: Access Denied\n.*let this user write there"),
        (
            OSError(5, "no space"),
            r"could not be written: \[Errno 5\] no space\n.*make room on the disk or the artifact store",
        ),
    ],
)
def test_what_cannot_be_written_says_why(cause, said):
    with pytest.raises(StorageError, match=said) as raised, writing("s3://b/x"):
        raise cause
    assert "s3://b/x" in str(raised.value)
    assert "rlft resume" in str(raised.value)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (AWAY("Read timeout"), "could not be read, as its store does not answer: Read timeout"),
        (PermissionError("Access Denied"), "could not be read: Access Denied\n.*let this user read there"),
        (OSError(5, "broken"), "could not be read: .*broken\n.*see that the disk or the artifact store can be read"),
    ],
)
def test_what_cannot_be_read_says_why(cause, said):
    with pytest.raises(StorageError, match=said), reading("s3://b/x"):
        raise cause


@pytest.mark.parametrize("cause", [FileNotFoundError("gone"), ValueError("a mistake")])
def test_a_file_that_is_gone_and_a_mistake_are_the_callers(cause):
    with pytest.raises(type(cause)), reading("s3://b/x"):
        raise cause

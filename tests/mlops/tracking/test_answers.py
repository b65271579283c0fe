"""What MLflow answers instead of the champion becomes one sentence, soon."""

import errno
import time

import pytest
from mlflow.exceptions import MlflowException, RestException

from mlops.registry.named import current_champion
from mlops.tracking import answers, reach
from mlops.tracking.answers import answering
from rlft.errors import PolicyError, TrackerError
from tests.servers_away import hanging_server

GONE = "http://someone:hunter2@127.0.0.1:9"


def test_a_server_that_is_gone_is_a_sentence_at_once():
    started = time.monotonic()
    with pytest.raises(TrackerError) as caught, answering(GONE):
        current_champion(GONE, "name")
    assert time.monotonic() - started < 3
    assert caught.value.what == "the tracker did not answer: nobody listens there, or the connection was cut"
    assert caught.value.exit_code == 5
    assert "hunter2" not in str(caught.value)


def test_a_server_that_hangs_is_given_up_after_the_probe(monkeypatch):
    monkeypatch.setattr(reach, "PROBE_SECONDS", 0.5)
    started = time.monotonic()
    with (
        hanging_server() as address,
        pytest.raises(TrackerError, match=r"did not answer: nothing within 0\.5 s"),
        answering(address),
    ):
        pytest.fail("it must not be asked")
    assert time.monotonic() - started < 3


def test_a_server_that_hangs_after_the_probe_costs_two_time_limits(monkeypatch):
    monkeypatch.setattr(answers, "check_reachable", lambda uri: None)
    started = time.monotonic()
    limits = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}
    with hanging_server() as address, pytest.raises(TrackerError) as caught, answering(address, limits):
        current_champion(address, "name")
    assert 2 <= time.monotonic() - started < 12  # MLflow pauses before it tries again
    assert caught.value.what.startswith("the tracker did not answer: API request to http://127.0.0.1:")
    assert "object at 0x" not in caught.value.what


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            RestException({"error_code": "RESOURCE_EXHAUSTED", "message": "Quota of 100 versions\nis reached"}),
            "the tracker refused it: RESOURCE_EXHAUSTED: Quota of 100 versions is reached",
        ),
        (
            RestException({"error_code": "PERMISSION_DENIED", "message": "Permission denied"}),
            "the tracker refused it: PERMISSION_DENIED: Permission denied",
        ),
        (RuntimeError("AccessDenied: PutObject"), "the tracker's store failed: RuntimeError: AccessDenied: PutObject"),
        (MlflowException("too many 503 error responses"), "the tracker did not answer: too many 503 error responses"),
    ],
)
def test_what_a_registry_answers_at_the_end_is_a_sentence(raised, said, tmp_path):
    with pytest.raises(TrackerError) as caught, answering(f"sqlite:///{tmp_path}/mlflow.db"):
        raise raised
    assert caught.value.what == said


@pytest.mark.parametrize("raised", [TypeError("a mistake"), PolicyError("no weights"), OSError(errno.ENOSPC, "full")])
def test_what_is_no_answer_stays_what_it_is(raised, tmp_path):
    with pytest.raises(type(raised)) as caught, answering(f"sqlite:///{tmp_path}/mlflow.db"):
        raise raised
    assert caught.value is raised

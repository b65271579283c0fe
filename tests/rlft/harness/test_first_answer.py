"""A model behind an address is asked once before a run, so that what is wrong with it stops the run at once."""

from __future__ import annotations

import pytest

from rlft.config import HarnessConfig, ModelControl
from rlft.engines import server_requests
from rlft.engines.base import Sampling
from rlft.errors import EngineError
from rlft.harness.asked import get_to_know
from tests.factories import make_task, user
from tests.rlft.engines.chat_servers import DROP, HANG, ChatServer, completion
from tests.rlft.harness.test_asked import KEY, Adder, Plain


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


def met(answer, environment=None, sampling=None, **settings):
    with ChatServer(answer) as server:
        control = ModelControl(model="small", endpoint=server.url, **{"attempts": 2, "timeout_seconds": 0.3} | settings)
        sampling = sampling or Sampling(0.5, 512, top_p=0.9)
        return get_to_know(control, make_task(), environment or Plain(), HarnessConfig(), sampling), server


def test_it_is_asked_as_it_will_be_but_for_a_short_answer():
    model, server = met(lambda body, number: completion("Well, let us", "length"), Adder())
    assert (model.endpoint, model.model, model.calls_itself) == (server.url, "small", "small-1")
    assert (model.attempts, model.timeout_seconds, model.concurrency, model.api_key) == (2, 0.3, 8, None)
    (body,) = server.bodies
    assert body["messages"] == [{"role": "system", "content": "Add."}, user("1+1=")]
    assert (body["temperature"], body["top_p"], body["max_tokens"], len(body["tools"])) == (0.5, 0.9, 16, 1)
    assert met(lambda body, number: "2", sampling=Sampling(0.0, 4))[1].bodies[0]["max_tokens"] == 4


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (401, "small cannot be asked: http://127.0.0.1"),
        (404, "answers 404"),
        (503, "answers 503"),
        (DROP, "does not answer"),
        (HANG, "does not answer: TimeoutError"),
        ((200, b"<html>", {}), "answers as no chat endpoint does: <html>"),
        (completion({"content": 5}), "its content is no text"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_out_and_without_the_key(fault, what, monkeypatch):
    monkeypatch.setenv("ENDPOINT_KEY", KEY)
    with pytest.raises(EngineError) as stopped:
        met(lambda body, number: fault, api_key="env:ENDPOINT_KEY")
    assert what in stopped.value.what
    assert "env:ENDPOINT_KEY holds a key" in stopped.value.fix
    assert stopped.value.where == "endpoint"
    assert KEY not in str(stopped.value)


def test_without_a_key_the_way_out_is_to_name_one():
    with pytest.raises(EngineError, match="that api_key names a variable that holds a key"):
        met(lambda body, number: 401)

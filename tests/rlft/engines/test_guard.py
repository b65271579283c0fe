"""What comes past the guard of a server: the server is an ASGI application that answers 200."""

from __future__ import annotations

import asyncio

import pytest

from rlft.engines.guard import KEY_VARIABLE, Guard


def answers(scope: dict, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What is sent for a request."""
    sent = []

    async def server(scope, receive, send):
        await send({"status": 200})

    async def send(message):
        sent.append(message)

    monkeypatch.setenv(KEY_VARIABLE, "right")
    asyncio.run(Guard(server)(scope, None, send))
    return sent


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/collective_rpc", [(b"authorization", b"Bearer right")], 200),
        ("/collective_rpc", [], 401),
        ("/collective_rpc", [(b"authorization", b"Bearer wrong")], 401),
        ("/v1/models", [(b"authorization", b"right")], 401),
        ("/health", [], 200),
        ("/health/", [], 401),
    ],
)
def test_only_who_knows_the_key_is_answered(path, headers, status, monkeypatch):
    first, *_ = answers({"type": "http", "path": path, "headers": headers}, monkeypatch)
    assert first["status"] == status


def test_a_socket_needs_the_key_and_the_start_of_the_server_does_not(monkeypatch):
    assert answers({"type": "websocket", "path": "/v1/realtime", "headers": []}, monkeypatch) == [
        {"type": "websocket.close", "code": 1008}
    ]
    assert answers({"type": "lifespan"}, monkeypatch) == [{"status": 200}]


def test_a_server_without_a_key_does_not_start(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(KeyError):
        Guard(lambda scope, receive, send: asyncio.sleep(0))

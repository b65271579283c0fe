import pytest

from rlft.engines import server_requests


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)

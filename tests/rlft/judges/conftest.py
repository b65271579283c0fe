import pytest

from rlft.engines import server_requests
from rlft.judges.answers import VARIABLE


@pytest.fixture(autouse=True)
def _short_waits_and_no_folder(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)
    monkeypatch.delenv(VARIABLE, raising=False)

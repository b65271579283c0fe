"""Signs of life of runs on a stack, with a ZenML that is made up. With real servers: tests/team/test_team.py."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.home.processes import note_process
from mlops.runs import finding, heartbeat


class Client:
    """ZenML's, with these steps; `beats` are the steps for which a sign of life came."""

    def __init__(self, steps) -> None:
        self.steps, self.beats, self.fails = steps, [], 1
        self.zen_store = self

    def __call__(self):
        return self

    def list_run_steps(self, **asked):
        assert asked["pipeline_run_id"] == "run"
        return self.steps

    def update_step_heartbeat(self, step_id):
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the server is away")
        self.beats.append(step_id)


def ago(seconds: float) -> datetime:
    return datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=seconds)  # as ZenML has it, without a zone


def step(created: float, *, beat: float | None = None, end: float | None = None):
    return SimpleNamespace(
        id="step",
        created=ago(created),
        start_time=ago(created),
        end_time=None if end is None else ago(end),
        latest_heartbeat=None if beat is None else ago(beat),
    )


def run(tracking_uri: str = "http://team:5000"):
    return SimpleNamespace(
        id="run", created=ago(1000), config=SimpleNamespace(parameters={"tracking_uri": tracking_uri})
    )


@pytest.fixture
def zenml(monkeypatch):
    import zenml.client

    client = Client([])
    monkeypatch.setattr(zenml.client, "Client", client)
    return client


def test_a_running_step_is_seen_again_after_a_failure(zenml, monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    zenml.steps = [step(1)]
    with heartbeat.seen_on_stack("http://team:5000", Home(tmp_path), "run"):
        until = time.monotonic() + 10
        while not zenml.beats and time.monotonic() < until:
            time.sleep(0.01)
    assert zenml.beats[0] == "step"
    count = len(zenml.beats) + 1  # one may have begun
    time.sleep(0.1)
    assert len(zenml.beats) <= count  # the end ends it


def test_a_run_in_a_home_asks_no_server(zenml, monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    home = Home(tmp_path)
    with heartbeat.seen_on_stack(home.tracking_uri, home, "run"):
        time.sleep(0.1)
    assert zenml.beats == []
    assert zenml.fails == 1


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        (list, 1000),  # the run alone
        (lambda: [step(500)], 500),
        (lambda: [step(500, beat=30)], 30),
        (lambda: [step(500, end=200), step(800, beat=600, end=550)], 200),
    ],
)
def test_the_newest_sign_counts(zenml, steps, seconds):
    zenml.steps = steps()
    assert heartbeat.silent_seconds(run()) == pytest.approx(seconds, abs=5)


def test_a_run_of_another_home_is_alive_until_it_is_silent(zenml, tmp_path):
    home = Home(tmp_path)
    (tmp_path / "runs").mkdir()
    zenml.steps = [step(500, beat=heartbeat.SILENT_SECONDS - 20)]
    assert finding.is_alive(home, run())
    zenml.steps = [step(500, beat=heartbeat.SILENT_SECONDS + 20)]
    assert not finding.is_alive(home, run())
    zenml.steps = [step(500, beat=5)]
    assert not finding.is_alive(home, run("home"))  # of a home the note of the process counts, and there is none
    note_process(home, "run", "run")
    assert finding.is_alive(home, run())  # its own process is seen, whatever ZenML knows

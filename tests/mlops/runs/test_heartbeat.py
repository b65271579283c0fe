"""Signs of life of runs on a stack."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.runs import finding
from mlops.runs import noting as heartbeat
from mlops.summary.file import keep_summary
from mlops.summary.summary import Summary


class Client:
    """ZenML's, which has last seen the run so many `seconds` ago by its own clock, and notes signs of life."""

    def __init__(self) -> None:
        self.seconds, self.signs, self.fails = 0.0, [], 1
        self.zen_store = self

    def __call__(self):
        return self

    def update_run(self, run_id, update):
        assert update.model_dump(exclude_unset=True) == {}
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the server is away")
        self.signs.append(run_id)

    def get_pipeline_run(self, run_id, **asked):
        assert run_id == "run"
        del asked
        # as ZenML has it, without a zone
        return SimpleNamespace(updated=datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=self.seconds))


def run(tracking_uri: str = "http://team:5000"):
    """A run that this home has not begun."""
    parameters = {"tracking_uri": tracking_uri}
    return SimpleNamespace(
        id="run",
        name="sums",
        created=datetime.now(UTC) - timedelta(hours=1),
        config=SimpleNamespace(parameters=parameters),
    )


@pytest.fixture
def zenml(monkeypatch):
    client = Client()
    monkeypatch.setattr(heartbeat, "Client", client)
    return client


def test_a_run_is_seen_again_after_a_failure_until_it_ends(zenml, monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    with heartbeat.seen_on_stack("http://team:5000", Home(tmp_path), "run"):
        until = time.monotonic() + 10
        while not zenml.signs and time.monotonic() < until:
            time.sleep(0.01)
    assert zenml.signs[0] == "run"
    count = len(zenml.signs) + 1  # one may have begun
    time.sleep(0.1)
    assert len(zenml.signs) <= count  # the end ends it


def test_a_run_in_a_home_asks_no_server(zenml, monkeypatch, tmp_path):
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    home = Home(tmp_path)
    with heartbeat.seen_on_stack(home.tracking_uri, home, "run"):
        time.sleep(0.1)
    assert zenml.signs == []
    assert zenml.fails == 1


def test_a_real_zenml_notes_a_sign_of_a_run_none_of_whose_steps_goes_on():
    from zenml.client import Client as Real
    from zenml.config.pipeline_configurations import PipelineConfiguration
    from zenml.enums import ExecutionStatus
    from zenml.models import PipelineRequest, PipelineRunRequest, PipelineSnapshotRequest

    store, project = Real().zen_store, Real().active_project.id
    pipeline = store.create_pipeline(PipelineRequest(project=project, name="signs"))
    snapshot = store.create_snapshot(
        PipelineSnapshotRequest(
            project=project,
            pipeline=pipeline.id,
            stack=Real().active_stack_model.id,
            pipeline_configuration=PipelineConfiguration(name="signs"),
            run_name_template="signs",
            client_environment={},
            is_dynamic=True,
        )
    )
    asked = PipelineRunRequest(project=project, name="signs", snapshot=snapshot.id, status=ExecutionStatus.RUNNING)
    made, _ = store.get_or_create_run(asked)
    time.sleep(1)
    before = heartbeat.silent_seconds(made)
    assert before >= 1
    heartbeat._beat(made.id)
    found = Real().get_pipeline_run(made.id)
    assert found.updated >= made.updated + timedelta(seconds=1)
    assert heartbeat.silent_seconds(made) < (datetime.now(UTC).replace(tzinfo=None) - made.updated).total_seconds() - 1
    assert found.status == ExecutionStatus.RUNNING  # nothing else has changed
    store.delete_run(made.id)
    store.delete_pipeline(pipeline.id)


def test_a_run_of_another_home_is_alive_until_it_is_silent(zenml, tmp_path):
    home = Home(tmp_path)
    zenml.seconds = heartbeat.SILENT_SECONDS - 20
    assert finding.is_alive(home, run())
    zenml.seconds = heartbeat.SILENT_SECONDS + 20
    assert not finding.is_alive(home, run())
    zenml.seconds = 5
    assert not finding.is_alive(home, run("home"))  # of a home the lock of its folder counts, and nobody holds it
    keep_summary(home.run_folder("sums", shared=True), Summary(status="running", pipeline_run_id="first"))
    assert finding.is_alive(home, run())  # another home goes on with what was begun here
    keep_summary(home.run_folder("sums", shared=True), Summary(status="running", pipeline_run_id="run"))
    assert not finding.is_alive(home, run())  # begun here, where no process goes on with it

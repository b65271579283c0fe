"""Whether a run that another home has begun on a stack goes on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.runs import finding
from mlops.summary.file import keep_summary
from mlops.summary.summary import Summary


def run(tracking_uri: str = "http://team:5000"):
    """A run that this home has not begun."""
    return SimpleNamespace(
        id="run",
        name="sums",
        created=datetime.now(UTC) - timedelta(days=9),
        config=SimpleNamespace(parameters={"tracking_uri": tracking_uri}),
    )


@pytest.mark.parametrize(("hours", "alive"), [(23, True), (25, False), (None, False)])
def test_a_run_of_another_home_is_alive_until_it_is_silent(monkeypatch, tmp_path, hours, alive):
    created = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=hours or 0)  # as ZenML has it, without a zone
    steps = [] if hours is None else [SimpleNamespace(created=created)]
    monkeypatch.setattr(finding, "Client", lambda: SimpleNamespace(list_run_steps=lambda **asked: steps))
    home = Home(tmp_path)
    assert finding.is_alive(home, run()) is alive
    assert not finding.is_alive(home, run("home"))  # of a home the lock of its folder counts, and nobody holds it
    keep_summary(home.run_folder("sums", shared=True), Summary(status="running", pipeline_run_id="run"))
    assert not finding.is_alive(home, run())  # begun here, where no process goes on with it

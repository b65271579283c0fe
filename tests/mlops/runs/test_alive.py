"""Whether a run that another home has begun on a stack goes on."""

from __future__ import annotations

from types import SimpleNamespace

from mlops.home.folder import Home
from mlops.runs.finding import is_alive
from mlops.summary.file import keep_summary
from mlops.summary.summary import Summary


def run(tracking_uri: str = "http://team:5000"):
    """A run that this home has not begun."""
    return SimpleNamespace(
        id="run",
        name="sums",
        config=SimpleNamespace(parameters={"tracking_uri": tracking_uri}),
    )


def test_a_run_of_another_home_goes_on_while_zenml_says_so(tmp_path):
    home = Home(tmp_path)
    assert is_alive(home, run())
    assert not is_alive(home, run("home"))  # of a home the lock of its folder counts, and nobody holds it
    keep_summary(home.run_folder("sums", shared=True), Summary(status="running", pipeline_run_id="run"))
    assert not is_alive(home, run())  # begun here, where no process goes on with it

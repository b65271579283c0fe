"""`rlft ui` with a real MLflow: what was tracked and registered is there by HTTP, and Ctrl-C ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import httpx
import pytest

from mlops.home.folder import Home as Folder
from tests.e2e.conftest import Home, free_port
from tests.mlops.home.making import finish

pytestmark = pytest.mark.timeout(1200)

TRACK = """
from mlops.home.folder import find_home
from mlops.home.variables import quieten, use_own_setup
quieten(False)
use_own_setup(find_home())
from mlflow import MlflowClient
client = MlflowClient(find_home().tracking_uri)
client.create_run(client.create_experiment("sums"), run_name="first")
client.create_registered_model("sums-model")
"""


@pytest.mark.slow
def test_runs_and_models_are_there_by_http(tmp_path):
    home, port = Home(tmp_path), free_port()
    tracked = home.code(TRACK)
    assert tracked.returncode == 0, tracked.stderr
    finish(Folder(tmp_path / ".rlft"))
    command = [sys.executable, "-m", "cli", "ui", "--port", str(port)]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=home.environment(),
        stdout=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background makes them, and so their children, ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = said.split()[-1].split("/#/")[0]
        assert address == f"http://127.0.0.1:{port}"
        api = f"{address}/api/2.0/mlflow"
        while True:
            try:
                page = httpx.get(address)
                break
            except httpx.HTTPError:
                assert process.poll() is None
                time.sleep(0.2)
        assert "<title>MLflow</title>" in page.text
        experiments = httpx.get(f"{api}/experiments/search?max_results=5").json()["experiments"]
        [found] = [each["experiment_id"] for each in experiments if each["name"] == "sums"]
        runs = httpx.post(f"{api}/runs/search", json={"experiment_ids": [found]}).json()["runs"]
        assert [run["info"]["run_name"] for run in runs] == ["first"]
        models = httpx.get(f"{api}/registered-models/search").json()["registered_models"]
        assert [model["name"] for model in models] == ["sums-model"]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)

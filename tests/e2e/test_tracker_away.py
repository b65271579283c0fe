"""MLflow's server goes away after the last round, or hangs from the first moment on."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from tests.e2e.conftest import TINY, free_port
from tests.servers_away import SHORT, command, hanging_server, store_of, tracker

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_a_server_that_goes_away_after_the_last_round_gets_the_policy_by_a_resume(make_home, tmp_path):
    store = store_of(tmp_path)
    home, port = make_home("gone"), free_port()
    address = f"http://127.0.0.1:{port}"
    there = tracker(port, tmp_path)
    there.__enter__()

    def take_away():
        while not (home.folder / "done").exists():
            threading.Event().wait(0.05)
        there.__exit__(None, None, None)
        (home.folder / "gone").touch()

    threading.Thread(target=take_away, daemon=True).start()
    code, said, summary = command(home, address, "run", str(TINY), *SHORT)
    assert code == 5, said
    assert "Retrying" not in said
    assert "Exception" not in said.replace("MlflowException: API request", "")
    assert "not registered: the tracker did not answer" in said
    assert summary["status"] in ("improved", "not_improved")
    assert summary["error"] is None
    assert summary["difference"]["tasks"] == 12
    assert summary["promotion"]["version"] is None
    assert summary["promotion"]["reasons"][1].startswith("`rlft resume tiny-")
    assert MlflowClient(store).search_model_versions() == []
    assert home.query("print(json.dumps([r.status.value for r in client.list_pipeline_runs()]))") == ["failed"]

    with tracker(port, tmp_path):
        code, said, resumed = command(home, address, "resume", summary["pipeline_run_id"])
    assert code == 0, said
    assert resumed["final"] == summary["final"]
    [version] = RegistryClient(store).search_model_versions("name = 'tiny'")
    assert version.tags["rlft.run_id"] == resumed["mlflow_run_id"]
    run = MlflowClient(store).get_run(resumed["mlflow_run_id"])
    assert (run.info.status, run.data.tags["rlft.status"]) == ("FINISHED", summary["status"])
    assert run.data.metrics["0_result/after"] == round(summary["difference"]["after"], 4)  # what was missed has arrived
    assert list(Path(home.folder / ".rlft" / "shared").glob("*/missed.json")) == []
    again = home.query("""
newest = client.list_pipeline_runs(sort_by="desc:created")[0]
print(json.dumps({name: step.status.value for name, step in newest.steps.items()}))
""")
    assert again["register_policy"] == again["decide_promotion"] == "completed"
    assert set(again.values()) == {"skipped", "completed"}
    assert again["evaluate_policy_trained"] == "skipped"


def test_a_server_that_hangs_holds_up_no_end_and_loses_nothing(make_home):
    home = make_home("hanging")
    (home.folder / "gone").touch()
    with hanging_server() as address:
        code, said, summary = command(home, address, "run", str(TINY), *SHORT)
    assert code == 5, said
    assert "not registered: the tracker did not answer" in said
    assert summary["final"]["accuracy"] >= 0
    [missed] = (home.folder / ".rlft" / "shared").glob("*/missed.json")
    kinds = {entry["kind"] for entry in json.loads(missed.read_text())["entries"]}
    assert {"tags", "params", "metrics", "text", "end"} <= kinds

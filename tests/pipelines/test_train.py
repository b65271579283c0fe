"""What the body of the pipeline prepares before its first step. Whole runs are in tests/e2e."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mlops.record.run import Record
from mlops.summary.summary import Summary
from pipelines import train as module
from rlft.config.file import load_config
from rlft.progress import silent
from tests.shipped import ROOT


def test_a_run_asks_ray_for_what_its_config_says_and_counts_these_gpus(monkeypatch, tmp_path):
    tracker: Any = SimpleNamespace(run_id="a run of MLflow's")
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_current_run", lambda: SimpleNamespace(config=SimpleNamespace(enable_cache=False)))
    monkeypatch.setattr(module, "choose_device", lambda device: SimpleNamespace(type="cuda"))
    record = Record(tracker, Summary(status="failed"), "first", gpus=1)
    joined = ["distributed={engine: ray, trainers: 4, address: auto}"]
    lent = module._lend(SimpleNamespace(report=silent), record, load_config(ROOT / "configs" / "demo.yaml", joined))
    assert lent.anew
    assert lent.demand.settings.address == "auto"
    assert (lent.demand.gpus, record.gpus) == (4, 4)
    record = Record(tracker, Summary(status="failed"), "first", gpus=1)
    lent = module._lend(SimpleNamespace(report=silent), record, load_config(ROOT / "configs" / "demo.yaml", []))
    assert (lent.demand, record.gpus) == (None, 1)

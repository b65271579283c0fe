"""What the body of the pipeline prepares before its first step. Whole runs are in tests/e2e."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mlops.summary.summary import Summary
from pipelines import train as module
from pipelines.observer import Attempt, Observer
from rlft.config.file import load_config
from rlft.progress import silent
from tests.shipped import ROOT


def test_a_run_asks_ray_for_what_its_config_says_and_counts_these_gpus(monkeypatch, tmp_path):
    tracker: Any = SimpleNamespace(run_id="a run of MLflow's")
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(module, "choose_device", lambda device: SimpleNamespace(type="cuda"))
    joined = ["distributed={engine: ray, trainers: 4, address: auto}"]
    settings = load_config(ROOT / "configs" / "demo.yaml", joined)
    seen = Observer(settings, tracker, Summary(status="failed"), Attempt("first"), gpus=1)
    lent = module._lend(SimpleNamespace(report=silent), seen, settings)
    assert (lent.distributed.address, seen.gpus) == ("auto", 4)
    settings = load_config(ROOT / "configs" / "demo.yaml", [])
    seen = Observer(settings, tracker, Summary(status="failed"), Attempt("first"), gpus=1)
    lent = module._lend(SimpleNamespace(report=silent), seen, settings)
    assert (lent.distributed, seen.gpus) == (None, 1)

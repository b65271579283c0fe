"""What each stage's step is told: its result is cached under that."""

from __future__ import annotations

import pytest

from pipelines import stages as module
from pipelines.stages import Stages
from rlft.config.file import load_config
from rlft.fingerprints.identity import EnvironmentFingerprints
from tests.shipped import ROOT


@pytest.mark.parametrize("changed", ["harness", "reward"])
def test_the_audit_is_done_again_after_a_change_of_the_tools_or_of_the_reward(monkeypatch, changed):
    told = []
    monkeypatch.setattr(module, "audit_rewards", lambda *given: told.append(given[1:]))
    config = load_config(ROOT / "configs" / "demo.yaml", [])
    prints = {"harness": "a", "reward": "b"}
    for each in (prints, prints | {changed: "c"}):
        Stages(config, EnvironmentFingerprints(**each)).audit(None)
    before, after = told
    assert before != after

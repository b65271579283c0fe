"""The probe in its process: what it measures of a tiny model, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rlft.config.file import load_config
from rlft.errors import EngineError, EnvironmentSetupError, MemoryShortError, RlftError
from rlft.estimation import probe
from rlft.estimation.probe import run_probe
from tests.rlft.estimation.made import make_config

TINY = Path(__file__).parents[2] / "fixtures" / "configs" / "tiny.yaml"


@pytest.mark.slow
def test_a_whole_round_of_a_tiny_model_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    probed = run_probe(load_config(TINY), 400)
    kinds = [line["kind"] for line in probed.lines]
    assert kinds == ["tasks", "model", "round", "warm_start", "round", "audit"]
    assert [probed.last("tasks")[name] for name in ("validation", "test", "final")] == [12, 12, 36]
    # 1 task, then after the warm start all 8 of a round, each with 4 attempts.
    assert [line["attempts"] for line in probed.of("round")] == [4, 32]
    assert probed.last("warm_start")["whole"]
    assert all(line["train"] > 0 for line in probed.of("round"))
    # An attempt has 1 to 4 tokens.
    assert all(line["attempts"] <= line["tokens"] <= 4 * line["attempts"] for line in probed.of("round"))
    assert all(1e8 < line["memory"] < 1e10 for line in probed.lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_set_up_that_cannot_work_is_told_as_it_is():
    with pytest.raises(EnvironmentSetupError, match=r"own\.py"):
        run_probe(make_config(), 5)


def test_servers_are_left_alone():
    config = make_config(rollout={"engine": "vllm_server", "server": {"addresses": ["http://127.0.0.1:9"]}})
    with pytest.raises(EngineError, match="other weights"):
        run_probe(config, 5)


@pytest.mark.parametrize(
    ("raised", "kind"), [(MemoryError("4096 MiB"), MemoryShortError), (ZeroDivisionError("by 0"), RlftError)]
)
def test_what_a_library_raises_is_told(monkeypatch, raised, kind):
    def measured(work):
        raise raised

    monkeypatch.setattr(probe, "_Work", lambda *_: None)
    monkeypatch.setattr(probe, "_measured", measured)
    with pytest.raises(RlftError, match=str(raised)) as caught:
        probe._probe(make_config(), 0.0)
    assert type(caught.value) is kind
    if kind is MemoryShortError:
        assert "--set rollout.max_completion_length=50" in caught.value.fix


def _killed(config, deadline):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_probe_that_the_system_ends_had_too_little_memory(monkeypatch):
    monkeypatch.setattr(probe, "_probe", _killed)
    with pytest.raises(MemoryShortError, match="too little memory"):
        run_probe(make_config(), 60)

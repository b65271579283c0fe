"""The probe in its process: what it measures of a tiny model, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlft.config.file import load_config
from rlft.errors import EngineError, EnvironmentSetupError, MemoryShortError, RlftError
from rlft.estimation import probing
from rlft.estimation.probing import run_probe
from tests.rlft.estimation.made import make_config

ROOT = Path(__file__).parents[3]
TINY = Path(__file__).parents[2] / "fixtures" / "configs" / "tiny.yaml"


@pytest.mark.slow
def test_a_whole_round_of_a_tiny_model_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    probed = run_probe(load_config(TINY), 400)
    kinds = [line["kind"] for line in probed.lines]
    assert kinds[:3] == ["tasks", "model", "round"]
    assert kinds[-1] == "audit"
    assert [probed.last("tasks")[name] for name in ("validation", "test", "final")] == [12, 12, 36]
    # 1 task, then after the warm start 2, 4 and 8, each with 4 attempts.
    assert [line["attempts"] for line in probed.of("round")] == [4, 8, 16, 32]
    assert [line["whole"] for line in probed.of("warm_start")] == [0.0, 1.0]
    assert all(line["train"] > 0 for line in probed.of("round"))
    assert all(line["encoded"] > 0 for line in probed.of("round"))
    # An attempt has 1 to 4 tokens.
    assert all(line["attempts"] <= line["tokens"] <= 4 * line["attempts"] for line in probed.of("round"))
    assert all(1e8 < line["memory"] < 1e10 for line in probed.lines)
    assert list(tmp_path.iterdir()) == []


def test_servers_are_left_alone():
    config = make_config(rollout={"engine": "vllm_server", "server": {"addresses": ["http://127.0.0.1:9"]}})
    with pytest.raises(EngineError, match="other weights"):
        run_probe(config, 5)


@pytest.fixture
def pretend(monkeypatch):
    """Lets a line of Python be the probe; `write` writes a line of what it has measured."""

    def as_probe(code):
        begin = "import os, sys, json, time; sys.stdin.readline(); out = open(sys.argv[-1], 'w', buffering=1); "
        begin += "write = lambda line: out.write(json.dumps(line) + chr(10)); "
        monkeypatch.setattr(probing, "_START", begin + code)

    return as_probe


def _write(line):
    return f"write({line!r})"


def test_it_goes_on_until_a_round_is_measured_and_says_what_it_waits_for(pretend):
    pretend(f"{_write({'kind': 'tasks'})}; time.sleep(3); {_write({'kind': 'round'})}; time.sleep(600)")
    said, began = [], time.monotonic()
    probed = run_probe(make_config(), 0.1, said.append)
    assert [line["kind"] for line in probed.lines] == ["tasks", "round"]
    assert len(said) == 1
    assert "no round is measured yet" in said[0]
    assert time.monotonic() - began < 300


def test_memory_that_runs_out_names_the_settings(pretend):
    pretend(_write({"kind": "error", "shortage": "memory", "what": "you tried to allocate 4096 MiB"}))
    with pytest.raises(MemoryShortError, match="you tried to allocate 4096 MiB") as caught:
        run_probe(make_config(), 60)
    assert "--set rollout.max_completion_length=50" in caught.value.fix


def test_a_probe_that_the_system_ends_had_too_little_memory(pretend):
    pretend("os.kill(os.getpid(), 9)")
    with pytest.raises(MemoryShortError, match="too little memory"):
        run_probe(make_config(), 60)


def test_an_error_of_the_set_up_is_told_as_it_is(pretend):
    pretend(_write({"kind": "error", "shortage": None, "what": "no", "where": "there", "fix": "do"}))
    with pytest.raises(RlftError, match="there: no\n  what to do: do") as caught:
        run_probe(make_config(), 60)
    assert not isinstance(caught.value, EnvironmentSetupError)


def test_what_it_has_started_ends_with_it(pretend, tmp_path):
    started = tmp_path / "pid"
    pretend(
        "import subprocess; p = subprocess.Popen(['sleep', '600']); "
        f"open({str(started)!r}, 'w').write(str(p.pid)); {_write({'kind': 'round'})}; time.sleep(600)"
    )
    run_probe(make_config(), 5)
    state, deadline = Path(f"/proc/{started.read_text()}/stat"), time.monotonic() + 30
    while state.exists() and state.read_text().split()[2] != "Z":  # a busy machine takes a while to end what is killed
        assert time.monotonic() < deadline
        time.sleep(0.05)


_ASKS = """
import sys
from pathlib import Path
from rlft.config.file import load_config
from rlft.estimation.probing import run_probe
run_probe(load_config(Path(sys.argv[1])), 300)
"""


def test_a_probe_ends_with_a_parent_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", _ASKS, str(TINY)], cwd=ROOT) as asking:
        try:
            parent, until = psutil.Process(asking.pid), time.monotonic() + 120
            while not (children := parent.children()):
                assert time.monotonic() < until, "no probe was begun"
                time.sleep(0.02)
            time.sleep(3)  # it is importing, or probes
            assert children[0].is_running()
        finally:
            asking.kill()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert (len(gone), alive) == (1, [])

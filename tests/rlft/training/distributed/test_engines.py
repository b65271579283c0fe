"""Real vLLM servers that Ray starts: they listen on loopback, ask for a key, and end with whatever has started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import numpy as np
import psutil
import pytest

from rlft.config import DistributedConfig, EngineSettings
from rlft.engines.base import Sampling
from rlft.engines.server_process import SERVER, Served
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import EngineError
from rlft.models import save_policy
from rlft.training.distributed.demand import Demand
from rlft.training.distributed.director_process import DirectorProcess, RayEngines, shared_folder
from rlft.types import derive_seed
from tests.factories import make_lora_policy, save_base
from tests.needs import need_ray, need_vllm
from tests.rlft.engines.vllm_policies import CONTEXT, make_vllm_policy, move, scores

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

PROMPTS = [[5 + group, 6, 7] for group in range(6) for _ in range(4)]
SEEDS = [derive_seed("test", place) for place in range(len(PROMPTS))]
SETTINGS = EngineSettings.model_validate(
    {
        "engine": "vllm_server",
        "vllm": {"cache_gib": 0.125},
        "server": {"engines": 2, "attempts": 2, "timeout_seconds": 120.0},
    }
)
ENDED_WITHIN = 30.0  # seconds


def make_engine(folder) -> tuple[VllmServerEngine, DirectorProcess]:
    director = DirectorProcess(Demand(DistributedConfig(engine="ray"), on_gpu=False, engines=2))
    return VllmServerEngine(SETTINGS, RayEngines(director, SETTINGS, 64, folder)), director


def below(pid: int) -> list[psutil.Process]:
    """Every process that one has started, directly or not, but the one that Python itself has for as long."""
    found = psutil.Process(pid).children(recursive=True)
    return [each for each in found if "multiprocessing.resource_tracker" not in " ".join(each.cmdline())]


def servers_of(processes: list[psutil.Process]) -> dict[str, psutil.Process]:
    """The servers among some processes, by their addresses."""
    found = {}
    for each in processes:
        command = each.cmdline()
        if SERVER in command:
            found[f"http://127.0.0.1:{command[command.index('--port') + 1]}"] = each
    return found


def assert_ended(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=ENDED_WITHIN)
    assert [each.cmdline() for each in alive if each.status() != "zombie"] == []


def assert_right(policy, found, expected=None):
    for place, (prompt, row) in enumerate(zip(PROMPTS, found, strict=True)):
        assert row.error is None
        np.testing.assert_allclose(row.logprobs, scores(policy, prompt, row.token_ids, 1.0), rtol=0, atol=1e-5)
        if expected is not None:
            np.testing.assert_array_equal(row.token_ids, expected[place].token_ids)


def test_what_is_started_is_not_shown_with_its_key():
    assert repr(Served("http://127.0.0.1:1", "key")) == "Served('http://127.0.0.1:1')"


def test_engines_sample_and_one_that_dies_is_left_out_with_all_that_it_has_started(tmp_path):
    need_vllm()
    need_ray()
    of_others = {each.pid for each in below(os.getpid())}  # of tests before this one, such as servers that fork
    engine, director = make_engine(tmp_path)
    policy = make_vllm_policy(tie_word_embeddings=True)
    policy.model.generation_config.eos_token_id = []
    try:
        engine.load_policy(policy)
        move(policy, 2e-2)
        engine.load_policy(policy)
        whole = engine.generate(PROMPTS, Sampling(1.0, 64), SEEDS)
        assert_right(policy, whole)
        assert engine.metrics["engine/servers"] == 2
        everything = [each for each in below(os.getpid()) if each.pid not in of_others]
        heard = {
            link.laddr.ip for each in everything for link in each.net_connections("inet") if link.status == "LISTEN"
        }
        assert {address.removeprefix("::ffff:") for address in heard} == {"127.0.0.1"}
        servers = servers_of(everything)
        assert set(servers) == {client.address for client in engine.servers.clients}
        for path in ("/collective_rpc", "/inference/v1/generate", "/v1/models", "/reset_prefix_cache"):
            for address in servers:
                for given in ({}, {"authorization": "Bearer wrong"}):
                    assert httpx.post(address + path, json={}, headers=given, trust_env=False).status_code == 401
        first, second = (servers[client.address] for client in engine.servers.clients)
        assert "RLFT_ENGINE_KEY" not in " ".join(first.cmdline())

        actor = first.parent()
        assert actor is not None
        assert actor.cmdline()[0].startswith("ray::EngineActor")
        had = [first, *first.children(recursive=True)]
        assert len(had) > 1  # vLLM computes in a process of its own
        actor.kill()
        assert_right(policy, engine.generate(PROMPTS, Sampling(1.0, 64), SEEDS), whole)
        assert engine.metrics["engine/servers"] == 1
        assert_ended(had)
        move(policy, 2e-2)
        engine.load_policy(policy)
        assert_right(policy, engine.generate(PROMPTS, Sampling(1.0, 64), SEEDS))

        had = second.children(recursive=True)
        second.kill()
        move(policy, 2e-2)
        with pytest.raises(EngineError, match=f"{engine.servers.clients[1].address} does not answer") as caught:
            engine.load_policy(policy)
        assert "`rlft resume`" in caught.value.fix
        assert_ended(had)
        everything = [each for each in below(os.getpid()) if each.pid in {other.pid for other in everything}]
    finally:
        engine.close()
        director.close()
    assert_ended(everything)
    assert list(tmp_path.iterdir()) == []


def test_engines_sample_with_an_adapter_that_moves(tmp_path):
    need_vllm()
    need_ray()
    shape = {"hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": CONTEXT}
    policy = make_lora_policy(save_base(tmp_path / "base", **shape))
    policy.model.generation_config.eos_token_id = []
    (folder := tmp_path / "engines").mkdir()
    engine, director = make_engine(folder)
    try:
        for _ in range(2):
            engine.load_policy(policy)  # the canaries prove each engine
            assert engine.metrics["engine/servers"] == 2
            assert_right(policy, engine.generate(PROMPTS, Sampling(1.0, 16), SEEDS))
            move(policy, 2e-2)
    finally:
        engine.close()
        director.close()
    assert list(folder.iterdir()) == []


KILLED = """
import json, os, sys, time
from pathlib import Path
from rlft.models import PolicyFolder, load_policy
from tests.rlft.training.distributed.test_engines import below, make_engine
import torch

if __name__ == "__main__":
    engine, director = make_engine(Path(sys.argv[2]))
    engine.load_policy(load_policy(PolicyFolder(Path(sys.argv[1])), torch.device("cpu")))
    print(json.dumps([each.pid for each in below(os.getpid())]), flush=True)
    time.sleep(600)
"""


def test_nothing_outlives_a_run_that_is_killed(tmp_path):
    need_vllm()
    need_ray()
    save_policy(make_vllm_policy(tie_word_embeddings=True), tmp_path / "policy")
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(tmp_path / "policy"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = json.loads(run.stdout.readline())
        processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        assert len(servers_of(processes)) == 2
        run.send_signal(signal.SIGKILL)
        started = time.monotonic()
        assert_ended(processes)
        assert time.monotonic() - started < ENDED_WITHIN


def test_machines_of_a_cluster_read_weights_beside_the_policies(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    assert shared_folder(None, tmp_path / "shared" / "scratch") == tmp_path / "own"
    assert shared_folder("auto", tmp_path / "shared" / "scratch") == tmp_path / "shared"

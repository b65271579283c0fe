"""A run with engines that Ray starts: killed while they sample, it leaves nothing, and resumed it ends alike."""

from __future__ import annotations

import time

import psutil
import pytest

from rlft.engines.server_process import SERVER
from tests.e2e.conftest import TINY
from tests.needs import need_ray, need_vllm

pytestmark = [pytest.mark.timeout(3000), pytest.mark.slow, pytest.mark.long]
SETTINGS = (
    "rollout.engine=vllm_server",
    "rollout.server.engines=2",
    "distributed={engine: ray}",
    "rollout.vllm.cache_gib=0.1",
    "policy.from_scratch.num_attention_heads=1",  # on a CPU vLLM takes heads of 32 and more
    "training.rounds=2",
    "controls=[]",
)
SHORT = tuple(part for setting in SETTINGS for part in ("--set", setting))
ENDED_WITHIN = 30  # seconds


def left_of(home) -> list[str]:
    """Programs that were started in a home: Ray's, and servers that sample."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        command = each.info["cmdline"] or []
        try:
            its = each.cwd() == str(home.folder) or "RLFT_ENGINE_KEY" in each.environ()
        except psutil.Error:
            continue
        if its and (SERVER in command or "raylet" in " ".join(command[:1]) or "VLLM" in " ".join(command)):
            found.append(" ".join(command))
    return found


def policies(home, result):
    found = home.steps(result.summary["pipeline_run_id"])
    return [found[f"train_grpo_r{number:03d}"]["outputs"]["policy"] for number in range(2)]


def test_a_run_that_is_killed_leaves_no_engine_and_ends_with_the_same_bytes(make_home):
    need_ray()
    need_vllm()
    home, other = make_home("engines-killed"), make_home("engines-whole")
    # the baseline, validation and r000 are sampled; then r001 dies while its rollouts are asked for
    killed = home.rlft(
        "run", str(TINY), *SHORT, "--name", "killed", kill_at="rlft.engines.vllm_server:VllmServerEngine.generate:4"
    )
    assert killed.code == -9, killed.output
    ended = time.monotonic() + ENDED_WITHIN
    while (left := left_of(home)) and time.monotonic() < ended:
        time.sleep(0.5)
    assert left == []
    resumed = home.rlft("resume", "killed")
    assert resumed.code == 0, resumed.output
    whole = other.rlft("run", str(TINY), *SHORT, "--name", "whole")
    assert whole.code == 0, whole.output
    assert policies(home, resumed) == policies(other, whole)
    assert resumed.summary["final"] == whole.summary["final"]
    assert left_of(home) == left_of(other) == []


def test_one_of_two_processes_samples_the_next_round_while_one_is_trained(make_home):
    need_ray()
    need_vllm()
    home = make_home("engines-lagged")
    sharded = (
        "rollout.server={engines: 1, tensor_parallel_size: 2}",
        "policy.from_scratch.hidden_size=64",
        "policy.from_scratch.num_attention_heads=2",  # one for each of the processes
        "training.lag=1",
    )
    done = home.rlft("run", str(TINY), *SHORT, *(part for setting in sharded for part in ("--set", setting)))
    assert done.code == 0, done.output
    assert done.summary["ledger"]["ages"] == {"0": 32, "1": 32}
    assert left_of(home) == []

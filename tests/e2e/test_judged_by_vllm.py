"""A run whose judge is a vLLM that it starts: it ends with the run, however that ends, and is counted by stage."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from tests.e2e.conftest import TINY
from tests.needs import need_vllm
from tests.rlft.rewards.judges.judge_models import save_judge

pytestmark = [pytest.mark.timeout(1500), pytest.mark.slow, pytest.mark.long]
ENDED_WITHIN = 60.0  # seconds; vLLM takes some to end in order when its parent was killed


def of_judge(model: str) -> list[psutil.Process]:
    """The servers of a judge that are alive, and the processes that they have started."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if model in line and "vllm.entrypoints.openai.api_server" in line and process.info["status"] != "zombie":
            found += [process, *process.children(recursive=True)]
    return found


def heed_interrupts() -> None:
    """A shell lets what it runs in the background ignore them, and so its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def assert_all_end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=ENDED_WITHIN)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def wait_for(condition, seconds: float = 300.0) -> list[psutil.Process]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError("it did not come to that")


def test_the_vllm_of_a_judge_is_shared_by_all_stages_and_ends_with_the_run(make_home, tmp_path):
    need_vllm()
    home, model = make_home("judged-by-vllm"), str(save_judge(tmp_path / "judge", score=1.0))
    vllm = {"cache_gib": 0.125, "dtype": "float32"}
    content = yaml.safe_load(TINY.read_text())
    content["reward"] = {
        "spec": {
            "criteria": {
                "right": {"says": "The number is right.", "grader": {"type": "number"}},
                "kind": {"says": "It is kind.", "grader": {"type": "judge", "question": "Is it kind?"}, "weight": 0.1},
            },
            "judge": {"engine": "vllm", "model": model, "vllm": vllm},
            "cases": [{"attempt": "4", "item": {"answer": "4"}, "at_least": 1, "reason": "The number alone is right."}],
        }
    }
    del content["environment"]
    content["training"]["rounds"] = 1
    (home.folder / "judged.yaml").write_text(yaml.safe_dump(content))

    killed = home.rlft("run", "judged.yaml", "--name", "judged", kill_at="rlft.training.job:train_round:1")
    assert killed.code == -signal.SIGKILL, killed.output
    assert_all_end(of_judge(model))

    # Ctrl-C while it starts.
    with (home.folder / "interrupted.log").open("wb") as log:
        going = subprocess.Popen(
            [sys.executable, "-m", "cli", "resume", "judged"],
            cwd=home.folder,
            env=home.environment(),
            stdout=log,
            stderr=log,
            preexec_fn=heed_interrupts,
        )
        try:
            started = wait_for(lambda: of_judge(model))
            going.send_signal(signal.SIGINT)
            assert going.wait(120) == 128 + signal.SIGINT
        finally:
            going.kill()
    assert_all_end(started)

    done = home.rlft("resume", "judged")
    assert (done.code, done.summary is None) == (0, False), done.output
    assert_all_end(of_judge(model))

    judges = (done.summary or {})["judges"]
    assert set(judges) == {
        "canaries", "audit", "baseline", "rounds", "validation", "controls", "constant_answer", "evaluation",
    }  # fmt: skip
    assert judges["canaries"]["calls"] == 1  # the first attempt has met it
    assert judges["audit"]["calls"] > 100
    # The audit's longest attempts do not fit into what the judge can read, which is an error of each.
    assert {name for name, stage in judges.items() if stage["failed"]} <= {"audit"}
    assert all(stage["untold"] == 0 for stage in judges.values())
    assert all(stage["calls"] + stage["cached"] > 0 for stage in judges.values())

"""A run that sleeps for so long that somebody else goes on with it, and wakes up afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import psutil
import pytest

from tests.e2e.aged import age
from tests.e2e.conftest import ROOT, TINY
from tests.e2e.sharing import ON, Sharing

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
SETS = ("--set", "training.rounds=2", "--set", "controls=[]", "--set", "reward.audit=false")


def stopped(anna: Sharing) -> int:
    """The process of her run, once it has stopped itself."""
    for _ in range(3000):
        for lock in (anna.folder / ".rlft" / "shared").glob("*/lock"):
            with suppress(psutil.Error, OSError, ValueError):
                if psutil.Process(pid := int(lock.read_text())).status() == psutil.STATUS_STOPPED:
                    return pid
        time.sleep(0.2)
    raise AssertionError("it has not stopped")


def test_it_says_so_and_leaves_the_finished_run_as_it_is(tmp_path):
    anna, ben = (Sharing.at(tmp_path, name) for name in ("anna", "ben"))
    assert anna.rlft("stack", str(ROOT / "configs/stacks/local.yaml")).code == 0
    run, ended = ("run", str(TINY), *SETS, "--name", "sleeps", *ON), []
    target = "rlft.training.job:train_round:2=stop="
    sleeping = threading.Thread(target=lambda: ended.append(anna.rlft(*run, kill_at=target)))
    sleeping.start()
    process = stopped(anna)
    try:
        age(anna.database)
        done = ben.rlft("resume", "sleeps", *ON)
        assert done.code == 0, done.output
    finally:
        os.kill(process, signal.SIGCONT)
        sleeping.join(600)
    [woken] = ended
    said = " ".join(woken.output.split())
    assert woken.code == 1, said
    assert "somebody else (default) has resumed sleeps as sleeps-resumed-1" in said
    assert "unexpected error" not in said
    assert "somebody else" in woken.summary["error"]
    status = ben.code(
        "import sys; from mlflow import MlflowClient; client = MlflowClient(sys.argv[1])\n"
        "run = client.get_run(sys.argv[2]); print(run.info.status, run.data.tags['rlft.status'])",
        f"sqlite:///{tmp_path}/.rlft-mlflow.db",
        done.summary["mlflow_run_id"],
    ).stdout.split()
    assert status == ["FINISHED", done.summary["status"]]

"""A reward in worker processes: what it does to its process is the error of one rollout, and scores are the same."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.workers.threads import take_loop
from rlft.errors import ConfigError, EnvironmentSetupError
from rlft.rewards.audit.environment import check_environment
from rlft.rewards.scores import RewardHangs
from rlft.rewards.scoring import score_rollouts
from tests.rlft.attempts import answered, make_task

TASK = make_task("t", "2+2=", "4")


def load(name="Plain"):
    return load_environment(f"tests.rlft.environments.workers.isolated_env:{name}", {})


def score(texts, environment=None, *, seconds=20.0, **workers):
    return score_rollouts(
        answered(TASK, *texts),
        {"t": TASK},
        environment or load(),
        RewardConfig(**{"isolation": "process", "timeout_seconds": seconds, **workers}),
    ).rows


@pytest.mark.slow
def test_what_ends_the_process_is_the_error_of_its_rollout():
    rows = score(["ok", "exit", "abort", "segfault", "kill", "ok", "fail", "nan", "print"])
    assert [row.total for row in rows] == [1.0, None, None, None, None, 1.0, None, None, 1.0]
    said = [str(row.error) for row in rows]
    assert said[1].startswith("compute_reward: its worker process ended with exit code 0; what to do: ")
    assert said[2].startswith("compute_reward: its worker process was ended by SIGABRT")
    assert said[3].startswith("compute_reward: its worker process was ended by SIGSEGV")
    assert said[4].startswith("compute_reward: its worker process was ended by SIGKILL")
    place = "tests/rlft/environments/workers/isolated_env.py:50"
    assert said[6] == f"compute_reward: ZeroDivisionError: division by zero, at {place}"
    assert rows[6].error.place == place
    assert len({row.parts["pid"] for row in (rows[0], rows[5])}) == 2
    assert os.getpid() not in {row.parts.get("pid") for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Plain", "Awaited"])
def test_processes_and_threads_say_the_same(name):
    texts = [*"abcdef", "fail", "nan", "", "\udcff"]

    def rows(**workers):
        return [
            replace(row, seconds=0.0, parts={**row.parts, "pid": None})
            for row in score(texts, load(name), **workers)
        ]  # fmt: skip

    alone = rows(isolation="thread")
    assert rows(concurrency=1) == alone
    assert rows(concurrency=4, processes=2) == alone
    assert [row.total for row in alone].count(1.0) == 8


@pytest.mark.slow
def test_an_expression_that_backtracks_for_ever_is_ended_by_killing_its_process():
    started = time.perf_counter()
    rows = score(["ok", "backtrack", "ok", "loop", "ok"], seconds=0.5)
    assert [row.total for row in rows] == [1.0, None, 1.0, None, 1.0]
    assert {str(row.error) for row in (rows[1], rows[3])} == {"compute_reward: ScoringTimeout: no score within 0.5 s"}
    assert time.perf_counter() - started < 60


@pytest.mark.slow
def test_those_that_wait_for_a_process_that_crashes_are_scored_all_the_same():
    texts = ["ok"] * 6 + ["segfault", "exit"] + ["ok"] * 6
    rows = score(texts, load("Awaited"), concurrency=14, processes=2)
    assert [row.total for row in rows] == [1.0] * 6 + [None] * 2 + [1.0] * 6


@pytest.mark.slow
def test_a_reward_that_leaks_loses_nothing_and_one_that_takes_too_much_is_told():
    rows = score(["leak"] * 6 + ["memory"] + ["ok"], memory_mib=256)
    assert [row.total for row in rows] == [1.0] * 6 + [None, 1.0]
    assert str(rows[6].error).startswith("compute_reward: MemoryError")
    assert rows[6].error.fix == "if it needs more memory, raise reward.memory_mib"
    assert len({row.parts["pid"] for row in rows[:6]}) == 2  # replaced once it has kept 128 of 256 MiB: after three


@pytest.mark.slow
def test_crashes_from_the_first_on_stop_the_run():
    with pytest.raises(RewardHangs, match="the first 8 scores have no result, the last as its worker process ended"):
        score(["ok"] * 20, load("Exits"))


def test_the_environment_says_where_it_runs_and_the_config_may_say_otherwise():
    assert score(["ok"], load("Native"), isolation=None)[0].parts["pid"] != os.getpid()
    assert score(["ok"], load("Native"), isolation="thread")[0].parts["pid"] == os.getpid()
    assert score(["ok"], isolation=None)[0].parts["pid"] == os.getpid()


@pytest.mark.slow
def test_what_a_worker_cannot_make_is_said_at_once(monkeypatch):
    class Made(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            return 1.0

    with pytest.raises(ConfigError, match="Made was made by a program"):
        score(["ok"], Made())
    monkeypatch.setenv("RLFT_TEST_FAILS", str(os.getpid()))
    with pytest.raises(
        EnvironmentSetupError, match=r"cannot be made in a worker process: .*\n?.*ValueError: no licence"
    ):
        score(["ok"], load("Fails"))


def test_a_file_that_has_changed_since_the_run_began_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    code = "import rlft\nclass Mine(rlft.BaseEnv):\n    def compute_reward(self, c, g):\n        return {}\n"
    file.write_text(code.format(1.0))
    environment = load_environment(f"{file}:Mine", {})
    file.write_text(code.format(0.0))
    with pytest.raises(EnvironmentSetupError, match="its file has changed since the run began"):
        score(["ok"], environment)


def test_a_worker_needs_neither_torch_nor_trackers():
    assert score(["ok"], load("Imports"))[0].parts["heavy"] == 0.0


def test_what_a_worker_prints_by_itself_is_rid_of_the_values_of_variables(monkeypatch, capfd):
    monkeypatch.setenv("RLFT_TEST_KEY", "zq81-Hidden-Value-77")
    environment = load_environment("tests.rlft.environments.workers.isolated_env:Tells", {"key": "env:RLFT_TEST_KEY"})
    assert score(["a"], environment)[0].total == 1.0
    said = capfd.readouterr().err
    assert all(f"{what} ***" in said for what in ("logged", "warned", "raised")), said
    assert "zq81" not in said


@pytest.mark.slow
def test_the_check_and_the_audit_of_an_environment_run_where_it_says():
    report = check_environment(load("Native"), [make_task("t", "say", "ok")])
    assert report.reward.parts["pid"] != os.getpid()
    assert report.audit is not None
    assert report.problems == ()
    ends = check_environment(load("Leaves"), [make_task("t", "say", "exit"), make_task("u", "say", "ok")])
    assert "its worker process ended with exit code 0" in ends.problems[0]


@pytest.mark.slow
def test_a_worker_is_where_the_user_stood_and_leaves_the_run_there(tmp_path, monkeypatch):
    environment = load()
    monkeypatch.chdir(tmp_path)
    rows = score(["chdir", "ok"], environment)
    assert [row.total for row in rows] == [1.0, 1.0]
    assert os.getcwd() == str(tmp_path)


@pytest.mark.slow
def test_processes_last_as_long_as_their_event_loop_and_begin_anew_in_another():
    environment = load()

    def pid():
        return score(["ok"], environment)[0].parts["pid"]

    first = pid()
    assert pid() == first
    (pool,) = environment.__dict__["_rlft_pools"].values()
    loop = take_loop(pool)  # as if code had to be left behind in it
    assert pid() != first
    loop.close()


@pytest.mark.slow
def test_a_worker_ends_with_the_run_also_while_c_code_holds_it(tmp_path):
    program = (
        "import os, threading, psutil, pathlib, sys, time\n"
        "from tests.rlft.rewards.test_isolated import score\n"
        "threading.Thread(target=score, args=(['backtrack'],), daemon=True).start()\n"
        "busy = []\n"
        "while not busy:\n"
        "    time.sleep(0.1)\n"
        "    busy = [each.pid for each in psutil.Process().children() if each.cpu_times().user > 2]\n"
        "pathlib.Path(sys.argv[1]).write_text(str(busy[0]))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    file = tmp_path / "pid"
    subprocess.run([sys.executable, "-c", program, str(file)], check=False, timeout=60)
    gone = time.perf_counter() + 10
    while psutil.pid_exists(int(file.read_text())) and time.perf_counter() < gone:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(file.read_text()))


def test_scores_of_turns_come_out_of_a_process_as_they_come_out_of_a_thread():
    alone = [row.steps for row in score(["a", "bcd"], load("Stepwise"), isolation="thread")]
    assert alone == [{"length": (1.0,)}, {"length": (3.0,)}]
    assert [row.steps for row in score(["a", "bcd"], load("Stepwise"))] == alone

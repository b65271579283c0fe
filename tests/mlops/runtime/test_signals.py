"""A process that is ended from outside or from inside says so, with an exit code that tells by what."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mlops.home.folder import Home
from mlops.home.last_calls import how_it_ended
from mlops.runtime.interrupted import _write_down
from mlops.runtime.signals import Facts, Interrupt, arm_pod, disarm_pod, installed
from mlops.summary.file import keep_summary, read_summary
from mlops.summary.summary import Summary

LISTENING = "import os, signal, sys, time\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup makes it deaf
HANDLED = "from mlops.runtime.signals import Interrupt\nInterrupt({}).install()\n"


def run(code, home, arguments=""):
    """Run code in a process of its own, whose signals are handled."""
    return subprocess.run(
        [sys.executable, "-c", LISTENING + HANDLED.format(arguments) + code],
        env=os.environ | {"RLFT_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_signal_has_the_exit_code_that_shells_give_it():
    codes = [Facts(signal=number).exit_code for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert codes == [130, 143, 129]


def test_a_closed_terminal_ends_the_process_with_a_sentence(tmp_path):
    done = run("os.kill(os.getpid(), signal.SIGHUP)", tmp_path)
    assert (done.returncode, done.stderr) == (129, "interrupted; no run was going on in this process\n")


def test_a_program_that_outlives_its_terminal_goes_on(tmp_path):
    ignoring = "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"  # as nohup does
    done = subprocess.run(
        [sys.executable, "-c", ignoring + HANDLED.format("") + "os.kill(os.getpid(), signal.SIGHUP)\nprint('on')"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "on\n")


def test_code_that_calls_os_exit_is_told_and_never_looks_finished(tmp_path):
    target = tmp_path / "s.json"
    done = run("os._exit(0)", tmp_path / "home", f"summary={str(target)!r}")
    assert done.returncode == 1
    assert done.stderr.startswith("died: os._exit(0) at <string>:5 has ended the process; ")
    summary = json.loads(target.read_text())
    assert (summary["status"], summary["error"]) == ("failed", "os._exit(0) at <string>:5 has ended the process")


def test_one_sentence_names_the_rollout_of_a_reward_that_calls_it(tmp_path):
    code = """
from mlops.home.folder import find_home
from mlops.home.last_calls import calls_witnessed
from rlft.workers.witness import noted
with calls_witnessed(find_home(), "a", "first"), noted("compute_reward", "r1", "t1"):
    os._exit(0)
"""
    target = tmp_path / "s.json"
    done = run(code, tmp_path / "home", f"summary={str(target)!r}")
    sentence = (
        "the process ended while compute_reward ran for rollout r1 of task t1, which called os._exit(0) at "
        "<string>:10; set reward.isolation to process, and it costs one rollout"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"died: {sentence}; no run was going on in this process\n"
    summary = json.loads(target.read_text())
    assert (summary["status"], summary["error"]) == ("failed", sentence)
    assert how_it_ended(Home(tmp_path / "home"), "first") == sentence


@pytest.mark.parametrize(("facts", "stays"), [(Facts(death="os._exit(0) in it"), True), (Facts(), False)])
def test_what_ran_is_kept_where_it_is_why_and_forgotten_after_an_interrupt(tmp_path, facts, stays):
    home = Home(tmp_path)
    summary = Summary(status="running", pipeline_run_id="a")
    keep_summary(home, summary)
    calls = tmp_path / "runs" / "a.calls"
    calls.touch()
    _write_down(home, None, summary, facts, ended=False)
    left = read_summary(home, "a")
    expected = ("failed", facts.death) if facts.death else ("interrupted", "interrupted")
    assert (left.status, left.error) == expected
    assert calls.exists() is stays


def test_a_thread_that_calls_it_is_told_too(tmp_path):
    thread = "import threading\nthreading.Thread(target=lambda: os._exit(0)).start()\ntime.sleep(60)"
    assert run(thread, tmp_path).returncode == 1


def test_a_forked_child_that_calls_it_ends_alone(tmp_path):
    done = run("if os.fork() == 0: os._exit(7)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))", tmp_path)
    assert (done.returncode, done.stdout) == (0, "7\n")


def test_a_forked_child_that_is_ended_says_nothing(tmp_path):
    # Python forgets a signal that reaches a child before it has begun.
    code = """
begun, begin = os.pipe()
if (child := os.fork()) == 0:
    os.write(begin, b"x")
    time.sleep(20)
    os._exit(0)
os.read(begun, 1)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-15\n", "")


def test_a_pod_s_handler_is_there_for_the_run_and_leaves_ctrl_c_alone():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    real = os._exit
    from zenml.orchestrators import signal_handler

    zenmls = signal_handler._SIGNALS
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        arm_pod()
        handler = installed()
        assert handler is not None
        assert handler.limit == 10
        assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
        assert signal_handler._SIGNALS == ()
        arm_pod()  # a handler that is there stays
        assert installed() is handler
        disarm_pod()
        assert installed() is None
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert os._exit is real
    finally:
        signal_handler._SIGNALS = zenmls
        for number, was in before.items():
            signal.signal(number, was)


@pytest.mark.parametrize("there", [signal.SIG_IGN, Interrupt()])
def test_a_pod_s_handler_takes_nothing_away(there):
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, there)
        arm_pod()
        disarm_pod()
        assert signal.getsignal(signal.SIGTERM) is there
    finally:
        signal.signal(signal.SIGTERM, before)

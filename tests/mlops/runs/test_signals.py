"""A process that a signal ends says so, with an exit code that tells by what, and ends its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlops.runs.signals import arm_pod, disarm_pod

# A shell that runs this in the background, or nohup, makes it deaf. A command whose body is `code`.
COMMAND = """
import os, signal, sys, threading, time
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_{action})
import cli.app
from cli.__main__ import console_script
from cli.guard import guarded
import mlops.runs.signals
from mlops.runs.signals import listen
mlops.runs.signals.LATE_SECONDS = 3.0
def app(arguments):
    import typer
    try:
        with guarded(False, None):
            body()
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
cli.app.make_app = lambda *_: app
def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)
def body():
    {code}
console_script([])
"""


def run(code, home, *, action="DFL", **files):
    """Run a command in a process of its own."""
    code = COMMAND.format(code=code.replace("\n", "\n    "), action=action)
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | files
    return subprocess.run([sys.executable, "-c", code], env=os.environ | {"RLFT_HOME": str(home)}, text=True, **given)


SAID = "interrupted; no run was going on in this process\n"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_each_signal_has_the_exit_code_that_shells_give_it_and_ends_the_children(name, code, tmp_path):
    body = f"""import subprocess
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
threading.Thread(target=time.sleep, args=(600,)).start()  # nobody waits for it
press(signal.{name})
time.sleep(600)"""
    done = run(body, tmp_path)
    assert (done.returncode, done.stderr) == (code, SAID)
    assert not Path(f"/proc/{int(done.stdout)}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "try: press()\nexcept KeyboardInterrupt: raise RuntimeError('it broke')",
        "try: press()\nexcept KeyboardInterrupt: sys.exit('a text')",
        "try: press()\nexcept KeyboardInterrupt: pass\nlisten()",  # the exception was lost: the next step raises it
        "try: press()\nfinally: press()",  # as a terminal and a parent process do
        "try: press()\nfinally: time.sleep(600)",  # as with a database that is locked
    ],
)
def test_whatever_comes_out_after_a_signal_is_the_interrupt(body, tmp_path):
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", SAID)


def test_it_ends_so_where_nobody_reads_what_it_says(tmp_path):
    """As in `rlft run 2>&1 | tee log`, whose tee dies by the same Ctrl-C; and on a full disk."""
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full:
        codes = [run("press()", tmp_path, stderr=file).returncode for file in (write, full)]
    os.close(write)
    assert codes == [130, 130]


def test_a_program_that_outlives_its_terminal_goes_on(tmp_path):
    done = run("press(signal.SIGHUP)\nprint('on')", tmp_path, action="IGN")  # as nohup does
    assert (done.returncode, done.stdout) == (0, "on\n")


@pytest.mark.slow
def test_a_forked_child_that_is_ended_says_nothing(tmp_path):
    # Python forgets a signal that reaches a child before it has begun.
    code = """begun, begin = os.pipe()
if (child := os.fork()) == 0:
    os.write(begin, b"x")
    time.sleep(20)
    os._exit(0)
os.read(begun, 1)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]))"""
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-15\n", "")


def test_a_pod_ends_at_once_and_its_handler_goes_with_the_run():
    before, of_ctrl_c = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        arm_pod()
        assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGINT) is of_ctrl_c  # it may be a program of the user's
        disarm_pod()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is there stays
        arm_pod()
        disarm_pod()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    code = "import os, signal\nfrom mlops.runs.signals import arm_pod\narm_pod()\nos.kill(os.getpid(), 15)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 143

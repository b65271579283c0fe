"""Ctrl-C where it hurts: inside a statement of the store, inside ZenML's handling of an error, before the first step,
and a second time. `python -m tests.e2e.interrupts` tries a hundred moments.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlops.runtime.signals import SIGNALS, Interrupt, installed, keep_from_zenml
from tests.e2e.conftest import TINY
from tests.e2e.interrupts import COMMAND

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

# What a script begins with: a home that is connected, and a way to press Ctrl-C.
PREPARED = """
import os, signal, sys
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
quieten(False); connect(find_home(), None)
import pipelines.train, steps.score_rewards, zenml.orchestrators.step_runner
from cli.__main__ import main
from mlops.runtime.signals import installed
signal.signal(signal.SIGINT, signal.default_int_handler)
press = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGINT)
"""

IN_A_STATEMENT = """
from sqlalchemy import event
from sqlalchemy.engine import Engine
score = steps.score_rewards.score_rollouts
def armed(*args, **kwargs):
    assert installed() is signal.getsignal(signal.SIGINT), "ZenML's handler has taken over"
    event.listen(Engine, "after_cursor_execute", press)
    return score(*args, **kwargs)
steps.score_rewards.score_rollouts = armed
"""

IN_AN_ERROR = """
def broken(*args, **kwargs):
    raise RuntimeError("something broke")
steps.score_rewards.score_rollouts = broken
zenml.orchestrators.step_runner.publish_failed_step_run = press
"""

BEFORE_THE_FIRST_STEP = """
pipelines.train.open_record = press
"""

AFTER_THE_LAST_LINE = """
import mlops.record.run
forget = mlops.record.run.forget_process
def last(*arguments):
    forget(*arguments)
    press()
mlops.record.run.forget_process = last
"""


def interrupted(home, script, *command):
    """Run a command in a script that presses Ctrl-C; its summary is in `summary.json`."""
    call = f"main({[*command, '--summary', 'summary.json']!r})"
    return home.code(PREPARED + script + call)


def said(done):
    """The one sentence."""
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if "interrupted" in line]
    return sentence


STATES = """
runs = client.list_pipeline_runs(sort_by="asc:created")
steps = {s.status.value for r in runs for s in client.list_run_steps(pipeline_run_id=r.id, size=100)}
experiment = mlflow_client.get_experiment_by_name("tiny")
found = mlflow_client.search_runs([experiment.experiment_id]) if experiment else []
print(json.dumps([[r.status.value for r in runs], sorted(steps), [r.info.status for r in found]]))
"""


def test_inside_a_statement_of_the_store_the_run_is_left_and_goes_on_to_its_end(make_home):
    home = make_home("statement")
    done = interrupted(home, IN_A_STATEMENT, *COMMAND)
    sentence = said(done)
    left = json.loads((home.folder / "summary.json").read_text())
    assert (left["status"], left["error"]) == ("interrupted", "interrupted")
    assert left["seconds"]["total"] > 1
    own = json.loads((home.folder / ".rlft" / "runs" / f"{left['pipeline_run_id']}.json").read_text())
    assert own["seconds"].pop("total") == pytest.approx(left["seconds"].pop("total"))
    assert own == left
    assert home.query(STATES) == [["failed"], ["completed", "failed"], ["KILLED"]]
    name = sentence.split("`rlft resume ")[1].split("`")[0]
    # the resume is interrupted before it has begun, and takes nothing away
    before = interrupted(home, BEFORE_THE_FIRST_STEP, "resume", name)
    assert said(before) == "interrupted; no run was going on in this process"
    # the next one is interrupted when it has written everything down, but ZenML has not
    resumed = interrupted(home, AFTER_THE_LAST_LINE, "resume", name)
    (summary,) = re.findall(r"interrupted; the run had ended, and its summary is (\S+)", said(resumed))
    assert Path(summary).read_text() == (home.folder / "summary.json").read_text()
    assert json.loads(Path(summary).read_text())["status"] in ("improved", "not_improved")
    statuses, _, tracked = home.query(STATES)
    assert statuses == ["failed", "failed", "completed"]
    assert tracked == ["FINISHED"]
    repeated = home.query("""
first, _, last = client.list_pipeline_runs(sort_by="asc:created")
done = [name for name, step in first.steps.items() if step.status.value == "completed"]
print(json.dumps([[last.steps[name].status.value for name in done], len(done)]))
""")
    assert set(repeated[0]) == {"skipped"}
    assert repeated[1] >= 3
    assert "has finished" in home.rlft("resume", name).output


IN_THE_SECOND_ROUND = """
import rlft.training.job as job
train, rounds = job.train_round, []
def second(*args, **kwargs):
    rounds.append(1)
    if len(rounds) == 2: press()
    return train(*args, **kwargs)
job.train_round = second
"""

BEFORE_THE_ROUNDS = """
pipelines.train._worth_training = press
"""


def test_what_was_finished_is_told_and_the_run_is_named_however_often_it_is_cut_short(make_home):
    home = make_home("ledger")
    done = interrupted(home, IN_THE_SECOND_ROUND, *COMMAND, "--name", "my run")
    assert said(done) == "interrupted; `rlft resume 'my run'` goes on from here"
    for script, command in ((None, None), (BEFORE_THE_ROUNDS, ("resume", "my run"))):
        if script:
            assert said(interrupted(home, script, *command)) == "interrupted; `rlft resume 'my run'` goes on from here"
        left = json.loads((home.folder / "summary.json").read_text())
        assert (left["status"], left["rounds"]) == ("interrupted", 1)
        ledger = left["ledger"]
        assert ledger["sampled"] == 32 == ledger["trained"] + ledger["filtered"] + ledger["errored"]
    listed = home.module("cli", "runs").stdout
    assert "my run was interrupted; this goes on with it: rlft resume 'my run'" in listed
    assert "my run-resumed" not in listed
    tags = home.query("""
[run] = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
print(json.dumps([run.data.tags["rlft.status"], run.data.tags["mlflow.note.content"]]))
""")
    assert tags == ["interrupted", "**The run was cut short: interrupted.**\n\n`rlft resume 'my run'` goes on."]


def test_inside_zenmls_handling_of_an_error_there_is_one_sentence(make_home):
    home = make_home("handling")
    assert "goes on from here" in said(interrupted(home, IN_AN_ERROR, *COMMAND))
    assert home.query(STATES)[0] == ["failed"]


def test_before_the_first_step_there_is_no_run_to_go_on_with(make_home):
    home = make_home("before")
    done = interrupted(home, BEFORE_THE_FIRST_STEP, *COMMAND)
    assert said(done) == "interrupted; no run was going on in this process"
    assert home.query(STATES) == [["failed"], [], []]


# A shell that runs this in the background, or nohup, makes it deaf.
LISTENING = "import signal\nfor deaf in (signal.SIGINT, signal.SIGHUP): signal.signal(deaf, signal.SIG_DFL)\n"
WITH_A_CHILD = """
import subprocess, sys, time
from mlops.runtime.signals import Interrupt
Interrupt().install()
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_children_end_with_it(number, code, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING + WITH_A_CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RLFT_HOME": str(tmp_path)},
    )
    child = int(process.stdout.readline())
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors == "interrupted; no run was going on in this process\n"
    assert not Path(f"/proc/{child}").exists()


WITH_RAYS_FOLDER = """
import signal, subprocess, sys, time
from mlops.runtime.signals import Interrupt
Interrupt().install()
deaf = "import signal, time; from rlft.distributed.local_cluster import make_folder;"
deaf += "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(make_folder(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf])
time.sleep(600)
"""


def test_the_folder_of_ray_ends_with_the_process_that_had_no_time_to_remove_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WITH_RAYS_FOLDER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"RLFT_HOME": str(tmp_path)},
    ) as process:
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
        assert process.stderr.read() == "interrupted; no run was going on in this process\n"
    assert not folder.exists()


def broken_pipe():
    read, write = os.pipe()
    os.close(read)
    return write


# As in `rlft run 2>&1 | tee log`, whose tee dies by the same Ctrl-C; as a daemon; with a full disk.
PLACES = {
    "broken pipe": lambda: {"stdout": broken_pipe(), "stderr": broken_pipe()},
    "no stdout": lambda: {"preexec_fn": lambda: os.close(1), "stderr": subprocess.PIPE},
    "no stderr": lambda: {"preexec_fn": lambda: os.close(2)},
    "full disk": lambda: {"stderr": os.open("/dev/full", os.O_WRONLY)},
    "no folder": lambda: {"stderr": subprocess.PIPE},
}


@pytest.mark.parametrize("place", PLACES)
def test_whatever_became_of_the_terminal_children_end_and_the_code_is_130(place, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    child_file = tmp_path / "child"
    code = WITH_A_CHILD.replace(
        "print(child.pid, flush=True)", f"open({str(child_file)!r}, 'w').write(f'{{child.pid}}.')"
    )
    home = str(tmp_path) if place != "no folder" else ".rlft"
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)" + code],
        cwd=folder,
        env=os.environ | {"RLFT_HOME": home},
        **PLACES[place](),
    )
    while not (child_file.exists() and child_file.read_text().endswith(".")):
        assert process.poll() is None
        time.sleep(0.05)
    if place == "no folder":
        folder.rmdir()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert not Path(f"/proc/{child_file.read_text()[:-1]}").exists()
    if said is not None:
        assert said.decode().startswith("interrupted; ")
        assert said.count(b"\n") == 1 + said.count(b"\n  what to do: ")  # one sentence and its way out


def test_a_second_one_ends_what_the_first_began(make_home):
    home = make_home("twice")
    slow = """
import sys, time, mlops.runtime.interrupted as it
it._settle = lambda *_, **__: (print("settling", file=sys.stderr, flush=True), time.sleep(600))
"""
    # the program that the process becomes is one that never comes to an end
    (home.folder / "slow.py").write_text(slow + "it.main(it.Facts(run_name='x'))")
    process = subprocess.Popen(
        [sys.executable, "slow.py"],
        cwd=home.folder,
        env=home.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline().startswith("interrupted; ")
    assert process.stderr.readline() == "settling\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == ""


IN_A_POD = """
import os, signal
from pathlib import Path
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
quieten(False); connect(find_home(), None)
import mlops.runtime.signals, pipelines.train
mlops.runtime.signals.POD_SECONDS = 60  # a machine that runs tests is slow to import ZenML
from mlops.runs.labels import make_labels
from mlops.runs.starting import pipeline_inputs, run_options
from rlft.config.file import load_config
def between_steps(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
pipelines.train._note_tasks = between_steps
config = load_config(Path({config!r}), [])
labels = make_labels(config.name, name="pod", note=None, tags=[], commits={{}})
train = pipelines.train.train.with_options(run_name="pod", **run_options(config, labels))
train(**pipeline_inputs(config, labels, None))
"""


def test_a_process_without_a_command_leaves_a_run_to_resume_between_steps_too(make_home):
    home = make_home("pod")
    done = home.code(IN_A_POD.format(config=str(TINY)))
    assert done.returncode == 143, done.stderr
    sentence = "interrupted; `rlft resume pod` goes on from here"
    assert done.stderr.splitlines()[-1] == sentence
    assert home.query(STATES) == [["failed"], ["completed"], ["KILLED"]]
    [described] = home.query("""
[run] = mlflow_client.search_runs([each.experiment_id for each in mlflow_client.search_experiments()])
print(json.dumps([run.data.tags["mlflow.note.content"]]))
""")
    assert described == "**The run was cut short: interrupted.**\n\n`rlft resume pod` goes on."


def test_a_clean_up_that_hangs_in_a_pod_is_ended(make_home):
    home = make_home("limit")
    slow = """
import os, time, mlops.runtime.interrupted as it
it._settle = lambda *_, **__: time.sleep(600)
it.main(it.Facts(run_name="x", signal=15, limit=time.time() + 2))
"""
    started = time.monotonic()
    assert home.python("-c", slow, timeout=60).returncode == 143
    assert time.monotonic() - started < 30


def test_what_a_shell_runs_in_the_back_stays_deaf(monkeypatch):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr(os, "_exit", os._exit)  # what `install` puts in its place goes with this test
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupt = Interrupt()
        interrupt.install()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is installed() is interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_zenmls_own_handler_stays_where_ours_is_not_installed(monkeypatch):
    from zenml.orchestrators import signal_handler

    theirs = (signal.SIGTERM, signal.SIGINT)
    monkeypatch.setattr(signal_handler, "_SIGNALS", theirs)  # another test of this process may have taken them
    assert installed() is None
    keep_from_zenml()
    assert theirs == signal_handler._SIGNALS

"""Signals where it hurts: in a call of a library that makes another error of it, and between steps."""

from __future__ import annotations

import json

import pytest

from tests.e2e.interrupts import COMMAND

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

# What a script begins with: a home that is connected, and a way to press Ctrl-C.
PREPARED = """
import os, signal, sys
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
quieten(False); connect(find_home(), None)
import pipelines.train, steps.round, zenml.orchestrators.step_runner
from cli.__main__ import console_script
signal.signal(signal.SIGINT, signal.default_int_handler)
press = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGINT)
"""


def interrupted(home, script, *command):
    """Run a command in a script that presses Ctrl-C; its summary is in `summary.json`."""
    call = f"console_script({[*command, '--summary', 'summary.json']!r})"
    return home.code(PREPARED + script + call)


def said(done, code=130):
    """The one sentence."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if "interrupted" in line]
    return sentence


# In a call of a library that makes another error of it.
IN_THE_SECOND_ROUND = """
import rlft.training.job as job
train, rounds = job.train_round, []
def second(*args, **kwargs):
    rounds.append(1)
    try:
        if len(rounds) == 2: press()
    except BaseException as cause:
        raise RuntimeError("something broke") from cause
    return train(*args, **kwargs)
job.train_round = second
"""

# In a query, half of whose rows are read: what holds its cursor is the trace of the interrupt itself.
IN_A_QUERY = """
from sqlalchemy import event
from sqlalchemy.engine import Engine
import rlft.training.job as job
train = job.train_round
def trained(*args, **kwargs):
    done = train(*args, **kwargs)
    event.listen(Engine, "after_cursor_execute", press, once=True)
    return done
job.train_round = trained
"""

# Between two steps.
BEFORE_THE_ROUNDS = """
pipelines.train.check_honest = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
"""


def test_what_was_finished_is_told_and_the_run_is_named_however_often_it_is_cut_short(make_home):
    home = make_home("ledger")
    done = interrupted(home, IN_THE_SECOND_ROUND, *COMMAND, "--name", "my run")
    assert said(done) == "interrupted; `rlft resume 'my run'` goes on from here"
    for script, command in ((None, None), (BEFORE_THE_ROUNDS, ("resume", "my run"))):
        if script:
            done = interrupted(home, script, *command)
            assert said(done, 143) == "interrupted; `rlft resume 'my run'` goes on from here"
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


def test_a_run_that_is_interrupted_in_a_query_has_failed_in_zenml(make_home):
    home = make_home("query")
    done = interrupted(home, IN_A_QUERY, *COMMAND, "--name", "asked")
    assert said(done) == "interrupted; `rlft resume asked` goes on from here"
    assert home.query("print(json.dumps(client.get_pipeline_run('asked').status.value))") == "failed"

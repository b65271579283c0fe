"""A pod that is ended, and the one that Kubernetes makes in its place, as processes that run a pod's command."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_rehearse import OwnRepository, own_repository

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
# `rlft run`, but for the last call of ZenML's orchestrator: the command of the pod is run until it ends with 0 or 45,
# each time in a new folder. The first process gets a signal once its log says what is waited for.
RUN = """
import json, os, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path
from mlops.home.folder import find_home
from mlops.home.variables import quieten
quieten(False)
from mlops.stacks.stack import connect
tracking_uri = connect(find_home(), "rlft-kubernetes-gpu")
from zenml.client import Client
from zenml.config import DockerSettings
from mlops.runs.labels import make_labels
from mlops.runs.starting import pipeline_inputs, run_options
from mlops.stacks.rehearsal import instead_of_pods, make_copy
from pipelines.train import train
from rlft.config.file import load_config

name, number, awaited = {name!r}, {number}, {awaited!r}
config = load_config(Path({config!r}), ["controls=[]"])
copy = make_copy(Path(tempfile.mkdtemp(dir=".")).resolve(), config, Client().active_stack)
codes, logs = [], []

def begin(command, addresses):
    variables = copy.variables | addresses | {{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "OMP_NUM_THREADS": "1"}}
    while not codes or (codes[-1] not in (0, 45) and len(codes) < 3):
        log = copy.folder / f"log{{len(codes)}}"
        program = str(copy.folder / "venv" / "bin" / command[0])
        with log.open("wb") as out:
            pod = subprocess.Popen(command, cwd=copy.app, env=variables, stdout=out, stderr=out, executable=program)
        while not codes and pod.poll() is None:
            if awaited in log.read_text():
                pod.send_signal(number)
                break
            time.sleep(0.05)
        codes.append(pod.wait())
        logs.append(log.read_text())
        shutil.rmtree(copy.app)
        copy.app.mkdir()

copy.begin = begin
labels = make_labels(config.name, name=name, note=None, tags=[], commits={{}})
options = run_options(config, labels) | {{"settings": {{"docker": DockerSettings(parent_image="x", skip_build=True)}}}}
with instead_of_pods(Client().active_stack, copy):
    train.with_options(run_name=name, **options)(**pipeline_inputs(config, labels, tracking_uri))
run = Client().get_pipeline_run(name, allow_name_prefix_match=False)
steps = Client().list_run_steps(pipeline_run_id=run.id, size=200, exclude_retried=False)
states = sorted((step.version, step.status.value) for step in steps)
print(json.dumps([codes, run.status.value, states, [log.count("init hook") for log in logs], logs[0][-300:]]))
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> OwnRepository:
    return own_repository(tmp_path_factory.mktemp("preempted"))


def run(user: OwnRepository, **what) -> tuple:
    from tests.e2e.conftest import TINY

    done = user.code(RUN.format(config=str(TINY), **what))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize(("name", "number", "code"), [("ended", 15, 143), ("killed", 9, -9)])
def test_the_next_pod_goes_on_with_the_run(user, name, number, code):
    awaited = "train_grpo_r000"  # its step has begun
    codes, status, states, hooks, last = run(user, name=name, number=number, awaited=awaited)
    assert (codes, status) == ([code, 0], "completed")
    again = [state for state in states if state[0] == 2]
    # One step at most was cut short and is noted as tried twice; the signal may come between two steps.
    assert [state for state in states if state[1] not in ("completed", "cached")] == [[1, "retried"]] * len(again)
    assert len(again) <= 1
    assert hooks == [1, 1]  # the state of a process, such as its policy, is made once and not with each step
    if number == 15:
        assert "the next pod of this job goes on from here" in " ".join(last.split())

"""A pod that is ended, and the one that Kubernetes makes in its place, as processes that run a pod's command."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_own_repository import OwnRepository, own_repository

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
# `rlft run`, but for the last call of ZenML's orchestrator: the command of the pod is run until it ends with 0 or 45,
# each time in a new folder. The first process gets a signal once its log says what is waited for.
RUN = """
import json, os, shutil, subprocess, sys, tempfile, time
from pathlib import Path
from mlops.home.folder import find_home
from mlops.home.variables import ALWAYS, quieten
quieten(False)
from mlops.stacks.stack import connect
tracking_uri = connect(find_home(), "rlft-kubernetes-gpu")
from zenml.client import Client
from zenml.config import DockerSettings
from zenml.orchestrators import SubmissionResult
from zenml.pipelines.dynamic.entrypoint_configuration import DynamicPipelineEntrypointConfiguration as Entry
from mlops.runs.labels import make_labels
from mlops.runs.resuming import pipeline_inputs, run_options
from pipelines.train import train
from rlft.config.file import load_config

name, number, awaited = {name!r}, {number}, {awaited!r}
config = load_config(Path({config!r}), ["controls=[]", "training.rounds=1"])
folder = Path(tempfile.mkdtemp(dir=".")).resolve()
app = folder / "app"
kept = ("PATH", "PYTHONPATH", "HOME", "ZENML_LOCAL_STORES_PATH", "KUBECONFIG", "OMP_NUM_THREADS", "HF_HUB_OFFLINE")
variables = ALWAYS | {{each: os.environ[each] for each in kept}}
variables |= {{"KUBERNETES_SERVICE_HOST": "127.0.0.1", "ZENML_CONFIG_PATH": str(app / ".zenconfig")}}
# ZenML's entry point goes to /app, wherever the image's own working directory is. Here that is another folder.
moved = '''
import os, runpy, sys

def moved(function):
    return lambda path, *arguments, **named: function(app if path == "/app" else path, *arguments, **named)

app, module = sys.argv[1:3]
os.chdir, os.makedirs, sys.argv = moved(os.chdir), moved(os.makedirs), sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
'''
codes, logs = [], []

def begin(arguments, addresses):
    while not codes or (codes[-1] not in (0, 45) and len(codes) < 3):
        app.mkdir()
        log = folder / f"log{{len(codes)}}"
        command = [sys.executable, "-c", moved, str(app), *arguments]
        with log.open("wb") as out:
            pod = subprocess.Popen(command, cwd=app, env=variables | addresses, stdout=out, stderr=out)
        while not codes and pod.poll() is None:
            if awaited in log.read_text():
                pod.send_signal(number)
                break
            time.sleep(0.05)
        codes.append(pod.wait())
        logs.append(log.read_text())
        shutil.rmtree(app)

def submit(self, snapshot, stack, environment, placeholder_run=None):
    arguments = Entry.get_entrypoint_arguments(snapshot_id=snapshot.id, run_id=placeholder_run.id)
    arguments = [*Entry.get_entrypoint_command()[2:], *arguments]  # without `python -m`
    return SubmissionResult(wait_for_completion=lambda: begin(arguments, environment))

type(Client().active_stack.orchestrator).submit_dynamic_pipeline = submit
labels = make_labels(config.name, name=name, tags=[], commits={{}})
options = run_options(config, labels) | {{"settings": {{"docker": DockerSettings(parent_image="x", skip_build=True)}}}}
train.with_options(run_name=name, **options)(**pipeline_inputs(config, labels, tracking_uri))
run = Client().get_pipeline_run(name, allow_name_prefix_match=False)
steps = Client().list_run_steps(pipeline_run_id=run.id, size=200, exclude_retried=False)
states = sorted((step.version, step.status.value) for step in steps)
print(json.dumps([codes, run.status.value, states, [log.count("init hook") for log in logs], logs[0][-300:]]))
"""


def run(user: OwnRepository, **what) -> tuple:
    from tests.e2e.conftest import TINY

    done = user.code(RUN.format(config=str(TINY), **what))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_the_next_pod_goes_on_with_the_run(tmp_path):
    user = own_repository(tmp_path)
    awaited = "train_grpo_r000"  # its step has begun
    codes, status, states, hooks, last = run(user, name="ended", number=15, awaited=awaited)
    assert (codes, status) == ([143, 0], "completed")
    again = [state for state in states if state[0] == 2]
    # One step at most was cut short and is noted as tried twice; the signal may come between two steps.
    assert [state for state in states if state[1] not in ("completed", "cached")] == [[1, "retried"]] * len(again)
    assert len(again) <= 1
    assert hooks == [1, 1]  # the state of a process, such as its policy, is made once and not with each step
    assert "the next pod of this job goes on from here" in " ".join(last.split())

"""Runs that are begun in a bare copy of what a pod would have, by ZenML's own entry point."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TINY
from tests.e2e.test_stack import UserHome

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: test, user: {}}]
"""
CONFIG = """
name: capitals
tasks: {source: jsonl, path: tasks.jsonl, prompt: question, answer: answer}
environment: {name: "environment.py:Capitals"}
policy: {model: none}
"""
ENVIRONMENT = """
import os
import rlft
from helper import WORD

assert "RLFT_ONLY_HERE" not in os.environ, "a pod inherits nothing"
assert os.environ["OF_THE_STACK"] == "1"
assert __file__.endswith("/app/code/environment.py"), __file__


class Capitals(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        return {"exact": float(completion.text.strip() == ground_truth)}
"""


class OwnRepository(UserHome):
    """The folder of a user, which is a repository of their own."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"KUBECONFIG": str(self.folder / "kubeconfig"), "RLFT_ONLY_HERE": "1"}


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> OwnRepository:
    """A user whose stack's pods are those of a cluster that cannot be reached, with its store on this machine."""
    return own_repository(tmp_path_factory.mktemp("own"))


def own_repository(folder: Path) -> OwnRepository:
    """Make such a user's folder, and register the stack."""
    home = OwnRepository(folder)
    subprocess.run(["git", "init", "--quiet", str(home.folder)], check=True)
    text = (ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml").read_text()
    text = text.replace("flavor: s3", "flavor: local").replace('{path: "${RLFT_ARTIFACTS_PATH}"}', "{}")
    text = text.replace("    synchronous: false", "    synchronous: false\n    local: true")
    text = text.replace("      env:\n", "      env:\n        - {name: OF_THE_STACK, value: '1'}\n")
    before, _, _ = text.partition("experiment_tracker:")
    tracker = 'experiment_tracker: {name: db, flavor: mlflow, config: {tracking_uri: "sqlite:///${HOME}/mlflow.db"}}\n'
    rows = "".join(json.dumps({"question": f"{n}?", "answer": str(n)}) + "\n" for n in range(30))
    for name, content in {
        "kubeconfig": KUBECONFIG,
        "stack.yaml": before + tracker,
        "config.yaml": CONFIG,
        "environment.py": ENVIRONMENT,
        "helper.py": "WORD = 'Paris'\n",
        "tasks.jsonl": rows,
        ".gitignore": "zenml\nstores\nmlflow.db\n.rlft*\nword.txt\n",
        "word.txt": "Lima",
    }.items():
        (home.folder / name).write_text(content)
    applied = home.rlft("stack", "stack.yaml")
    assert applied.code == 0, applied.output
    return home


def rehearse(user: OwnRepository, config: str = "config.yaml") -> subprocess.CompletedProcess[str]:
    return user.module("cli", "rehearse", config, "--stack", "rlft-kubernetes-gpu")


def test_a_users_own_repository_is_begun_as_a_pod_would(user):
    done = rehearse(user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A pod of rlft-kubernetes-gpu would begin this run" in done.stdout
    asked = """
[run] = client.list_pipeline_runs()
steps = {step.name: step.status.value for step in client.list_run_steps(pipeline_run_id=run.id)}
print(json.dumps([run.pipeline.name, run.status.value, steps]))
"""
    steps = {"ingest_tasks": "completed", "try_set_up": "completed"}
    assert user.ask(asked) == ["rehearse", "completed", steps]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("WORD = open('word.txt').read()", "No such file or directory: 'word.txt'"),  # git ignores it
        ("__import__('pytest')", "No module named 'pytest'"),  # it is installed here
    ],
)
def test_what_only_this_machine_has_fails_as_in_a_pod(user, line, said):
    (user.folder / "helper.py").write_text(f"WORD = ''\n{line}\n")
    failed = rehearse(user)
    assert failed.returncode == 2, failed.stdout + failed.stderr
    assert said in " ".join(failed.stderr.split())
    assert "helper.py:2" in failed.stderr
    assert "provisioning" not in user.ask(
        "print(json.dumps([run.status.value for run in client.list_pipeline_runs()]))"
    )


def test_what_can_be_told_before_is_told_at_submission(user):
    (user.folder / "helper.py").write_text("import pytest\nWORD = ''\n")
    (user.folder / "requirements.txt").write_text("numpy==1.26.0\n")
    (user.folder / "gone.py").write_text("")
    refused = user.rlft("run", "config.yaml", "--stack", "rlft-kubernetes-gpu", "--set", "tasks.path=gone.jsonl")
    (user.folder / "requirements.txt").unlink()
    assert refused.code == 2
    said = " ".join(refused.output.split())
    assert "tasks.path: gone.jsonl (it is not here, either)" in said
    assert "helper.py imports pytest, which the image will not have" in said
    assert "numpy==1.26.0 is asked for, and numpy==" in said


def test_so_are_what_an_evaluation_lacks_and_a_variable(user):
    gone = ("--set", "tasks.path=gone.jsonl", "--set", "environment.kwargs={key: 'env:JUDGE_KEY'}")
    on = ("--stack", "rlft-kubernetes-gpu")
    refused = user.rlft("evaluate", "./model", "--suite", "config.yaml", *on, *gone)
    said = " ".join(refused.output.split())
    assert refused.code == 2, said
    assert "tasks.path: gone.jsonl (it is not here, either)" in said
    # The stack's pods take all variables from a secret of a cluster that is away.
    assert "whether the pods will have JUDGE_KEY (environment.kwargs.key) is not known" in said


def test_the_clone_is_begun_as_a_pod_would(user):
    done = user.module("cli", "rehearse", str(TINY), "--stack", "rlft-kubernetes-gpu", "--set", "warm_start=null")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A pod of rlft-kubernetes-gpu would begin this run" in done.stdout


def test_a_stack_without_pods_has_nothing_to_rehearse(user):
    applied = user.rlft("stack", str(ROOT / "configs" / "stacks" / "local.yaml"))
    assert applied.code == 0, applied.output
    refused = user.module("cli", "rehearse", "config.yaml", "--stack", "rlft-local")
    assert (refused.returncode, "begin on this machine" in refused.stderr) == (2, True)

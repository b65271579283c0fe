"""Runs from a repository of a user's own, on a stack whose pods would lack something: refused at submission."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
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
import rlft
from helper import WORD


class Capitals(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        return {"exact": float(completion.text.strip() == ground_truth)}
"""


class OwnRepository(UserHome):
    """The folder of a user, which is a repository of their own."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"KUBECONFIG": str(self.folder / "kubeconfig")}


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
        ".gitignore": "zenml\nstores\nmlflow.db\n.rlft*\n",
    }.items():
        (home.folder / name).write_text(content)
    applied = home.rlft("stack", "stack.yaml")
    assert applied.code == 0, applied.output
    return home


def test_what_can_be_told_before_is_told_at_submission(user):
    refused = user.rlft("run", "config.yaml", "--stack", "rlft-kubernetes-gpu", "--set", "tasks.path=gone.jsonl")
    assert refused.code == 2
    said = " ".join(refused.output.split())
    assert "tasks.path: gone.jsonl" in said
    assert "environment.name: environment.py" in said

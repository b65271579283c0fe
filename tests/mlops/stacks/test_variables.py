"""Variables that pods will not have are named before anything is submitted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from zenml.integrations.kubernetes.pod_settings import KubernetesPodSettings
from zenml.utils import env_utils

from mlops.stacks.image import lacking_variables
from rlft.config.file import load_config
from tests.e2e.conftest import TINY

CHANGES = [
    "environment.kwargs={key: 'env:JUDGE_KEY'}",
    'controls=[{model: gpt, endpoint: "http://127.0.0.1:1/v1", api_key: "env:MODEL_KEY"}]',
]
CONFIG = load_config(TINY, CHANGES)


def stack_with(**pod: Any) -> Any:
    """A stack whose orchestrator has such pods."""
    config = SimpleNamespace(orchestrator_pod_settings=KubernetesPodSettings(**pod))
    orchestrator = SimpleNamespace(flavor="kubernetes", config=config, environment={}, secrets=[])
    return SimpleNamespace(orchestrator=orchestrator, environment={}, secrets=[], all_components=[orchestrator])


def missing(stack: Any) -> list[str]:
    return [line.strip() for problem in lacking_variables(CONFIG, stack) for line in problem.what.splitlines()[1:]]


def test_each_is_named_with_its_setting():
    both = ["environment.kwargs.key needs the variable JUDGE_KEY", "controls.api_key needs the variable MODEL_KEY"]
    stack = stack_with()
    assert missing(stack) == both
    assert "env_from" in lacking_variables(CONFIG, stack)[0].fix
    assert lacking_variables(load_config(TINY), stack) == []
    assert missing(SimpleNamespace(**vars(stack) | {"orchestrator": SimpleNamespace(flavor="vertex")})) == both


def test_the_stack_sets_some_in_its_pods_and_for_its_runs(monkeypatch):
    stack = stack_with(env=[{"name": "JUDGE_KEY", "value": "x"}])
    assert missing(stack) == ["controls.api_key needs the variable MODEL_KEY"]
    stack.environment = {"MODEL_KEY": "x"}
    assert missing(stack) == []
    stack.environment, stack.orchestrator.secrets = {}, ["the id of a secret of ZenML's"]
    monkeypatch.setattr(env_utils, "resolve_secrets", lambda ids: {"MODEL_KEY": "x"} if ids else {})
    assert missing(stack) == []


def test_what_the_cluster_may_hold_is_told_and_not_refused(caplog):
    assert missing(stack_with(env_from=[{"secretRef": {"name": "rlft", "optional": True}}])) == []
    assert "environment.kwargs.key needs the variable JUDGE_KEY" in caplog.text

"""Variables that pods will not have are named before anything is submitted; the cluster is asked by its own client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration
from zenml.integrations.kubernetes.pod_settings import KubernetesPodSettings
from zenml.utils import env_utils

from mlops.stacks.variables import lacking_variables
from tests.e2e.conftest import free_port

NEEDED = [("environment.kwargs.key", "JUDGE_KEY"), ("controls.api_key", "MODEL_KEY")]
FROM_SECRET = {"secretRef": {"name": "rlft", "optional": True}}
FROM_MAP = {"configMapRef": {"name": "rlft"}, "prefix": "MODEL_"}


@contextmanager
def cluster(held: dict[str, dict[str, str]], status: int = 200) -> Iterator[str]:
    """A cluster's API, which has these secrets and config maps by their paths' ends; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, name = self.path.split("?")[0].split("/")[-2:]
            there = held.get(f"{kind}/{name}")
            self.send_response(status if there is not None or status != 200 else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"data": there}).encode())

        def log_message(self, *_: Any) -> None:
            """Keep still."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def stack_at(address: str, **pod: Any) -> Any:
    """A stack whose orchestrator has such pods in the cluster at an address."""
    config = SimpleNamespace(
        orchestrator_pod_settings=KubernetesPodSettings(**pod), kubernetes_namespace="zenml", incluster=False
    )
    client = Configuration(host=address)
    client.retries = False  # type: ignore[assignment]
    orchestrator = SimpleNamespace(
        flavor="kubernetes", config=config, environment={}, secrets=[], get_kube_client=lambda: ApiClient(client)
    )
    return SimpleNamespace(orchestrator=orchestrator, environment={}, secrets=[], all_components=[orchestrator])


def missing(stack: Any) -> list[str]:
    return [line.strip() for problem in lacking_variables(NEEDED, stack) for line in problem.what.splitlines()[1:]]


def test_each_is_named_with_its_setting():
    both = ["environment.kwargs.key needs the variable JUDGE_KEY", "controls.api_key needs the variable MODEL_KEY"]
    stack = stack_at("http://127.0.0.1:9")
    assert missing(stack) == both
    [problem] = lacking_variables([NEEDED[0], NEEDED[0]], stack)
    assert problem.what.count("JUDGE_KEY") == 1
    assert "env_from" in problem.fix
    assert lacking_variables([], stack) == []
    assert missing(SimpleNamespace(**vars(stack) | {"orchestrator": SimpleNamespace(flavor="vertex")})) == both


def test_the_stack_sets_some_in_its_pods_and_for_its_runs(monkeypatch):
    stack = stack_at("http://127.0.0.1:9", env=[{"name": "JUDGE_KEY", "value": "x"}])
    assert missing(stack) == ["controls.api_key needs the variable MODEL_KEY"]
    stack.environment = {"MODEL_KEY": "x"}
    assert missing(stack) == []
    stack.environment, stack.orchestrator.secrets = {}, ["the id of a secret of ZenML's"]
    monkeypatch.setattr(env_utils, "resolve_secrets", lambda ids: {"MODEL_KEY": "x"} if ids else {})
    assert missing(stack) == []


def test_secrets_and_config_maps_of_the_cluster_have_others():
    held = {"secrets/rlft": {"JUDGE_KEY": "eA=="}, "configmaps/rlft": {"KEY": "x"}}
    with cluster(held) as address:
        assert missing(stack_at(address, env_from=[FROM_SECRET, FROM_MAP])) == []
        assert missing(stack_at(address, env_from=[FROM_SECRET])) == ["controls.api_key needs the variable MODEL_KEY"]
    with cluster({}) as address:  # the secret may be left out, and then holds nothing
        assert len(missing(stack_at(address, env_from=[FROM_SECRET]))) == 2


@pytest.mark.parametrize("answers", [True, False])
def test_what_a_cluster_does_not_show_is_not_refused_but_told(answers, caplog):
    if answers:
        with cluster({}, status=403) as address:
            assert missing(stack_at(address, env_from=[FROM_SECRET])) == []
    else:
        assert missing(stack_at(f"http://127.0.0.1:{free_port()}", env_from=[FROM_SECRET])) == []
    assert "whether the pods will have JUDGE_KEY (environment.kwargs.key), MODEL_KEY" in caplog.text

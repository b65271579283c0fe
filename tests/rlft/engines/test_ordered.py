"""Servers that are started by an order: what it says of a policy, and that all ends which one has started."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from rlft.config import EngineSettings
from rlft.engines import server_process as ordered
from rlft.engines.server_process import KEY_VARIABLE, Guard, Order, Ordered
from rlft.engines.serving import order_for
from rlft.errors import EngineError
from rlft.models.export import checkpoint_weights
from tests.rlft.models.small_models import add_lora, make_model, policy_of

# A server that has a process of its own beside it, as vLLM has, and answers at every path.
SERVER = """
import http.server, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
at = sys.argv.index("--port")
http.server.ThreadingHTTPServer((sys.argv[sys.argv.index("--host") + 1], int(sys.argv[at + 1])), Answer).serve_forever()
"""


def after(order: Order, option: str) -> str:
    return order.options[order.options.index(option) + 1]


def settings(**server) -> EngineSettings:
    return EngineSettings.model_validate({"engine": "vllm_server", "server": {"engines": 2, **server}})


def test_full_weights_are_in_the_folder_of_the_order(tmp_path):
    policy = policy_of(make_model("qwen3"))
    order = order_for(policy, settings(), 7, tmp_path)
    assert after(order, "--model") == str(tmp_path)
    assert (after(order, "--max-num-seqs"), after(order, "--dtype")) == ("7", "float32")
    assert after(order, "--middleware") == "rlft.engines.server_process.Guard"
    assert order.variables["VLLM_SERVER_DEV_MODE"] == "1"
    assert "--tensor-parallel-size" not in order.options
    assert (tmp_path / "config.json").is_file()
    weights = load_file(tmp_path / "model.safetensors")
    assert all(weights[name].equal(weight) for name, weight in checkpoint_weights(policy.model))


def test_an_adapter_is_ordered_with_its_base(tmp_path):
    policy = policy_of(add_lora(make_model("qwen3")))
    make_model("qwen3").save_pretrained(tmp_path / "base")
    policy.metadata = dataclasses.replace(policy.metadata, base_model=str(tmp_path / "base"))
    order = order_for(policy, settings(tensor_parallel_size=4), 7, tmp_path / "unused")
    assert after(order, "--model") == str(tmp_path / "base")
    assert order.variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert "VLLM_SERVER_DEV_MODE" not in order.variables
    assert (after(order, "--tensor-parallel-size"), after(order, "--distributed-executor-backend")) == ("4", "mp")


@pytest.fixture
def stands_in(tmp_path, monkeypatch):
    """A module that stands in for vLLM's server."""
    (tmp_path / "stand_in.py").write_text(SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ordered, "SERVER", "stand_in")
    monkeypatch.setattr(ordered, "_LOOKS_EVERY", 0.05)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def assert_ended(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert [each for each in alive if each.status() != "zombie"] == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["by itself", "when it is told"])
def test_all_that_a_server_has_started_ends_with_it(stands_in, ends):
    server = Ordered(Order((), {}, on_gpu=False), "127.0.0.1", 1)
    server.wait(60)
    own = psutil.Process(server.child.pid)
    assert own.environ()["RLFT_ENGINE_KEY"] == server.served.key
    assert own.environ()["OMP_NUM_THREADS"] == "1"
    assert server.served.key not in " ".join(own.cmdline())
    both = [own, *own.children()]
    assert len(both) == 2
    if ends == "by itself":
        own.kill()
    else:
        server.stop()
    assert_ended(both)
    server.stop()
    assert [each for each in Path(stands_in).iterdir() if each.is_dir() and each.name != "__pycache__"] == []


ACTOR = """
import os, signal, sys
from rlft.engines import server_process as ordered
ordered.SERVER = "stand_in"
server = ordered.Ordered(ordered.Order((), {}, on_gpu=False), "127.0.0.1", 1)
server.wait(60)
print(server.child.pid, flush=True)
sys.stdin.readline()
os.kill(server.child.pid, signal.SIGKILL)
os._exit(1)
"""


def test_nothing_is_left_where_ray_kills_a_server_and_the_actor_ends(stands_in):
    path = f"{os.getcwd()}:{stands_in}"
    with subprocess.Popen(
        [sys.executable, "-c", ACTOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(stands_in)},
    ) as actor:
        assert actor.stdin is not None
        assert actor.stdout is not None
        own = psutil.Process(int(actor.stdout.readline()))
        both = [own, *own.children()]
        assert len(both) == 2
        actor.stdin.write("end\n")
        actor.stdin.flush()
        assert_ended(both)


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(stands_in):
    (stands_in / "stand_in.py").write_text("raise ValueError('no room')")
    with pytest.raises(EngineError, match="ValueError: no room"):
        Ordered(Order((), {}, on_gpu=False), "127.0.0.1", 1).wait(60)
    assert [each for each in stands_in.iterdir() if each.is_dir() and each.name != "__pycache__"] == []


def answers(scope: dict, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What is sent for a request."""
    sent = []

    async def server(scope, receive, send):
        await send({"status": 200})

    async def send(message):
        sent.append(message)

    monkeypatch.setenv(KEY_VARIABLE, "right")
    asyncio.run(Guard(server)(scope, None, send))
    return sent


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/collective_rpc", [(b"authorization", b"Bearer right")], 200),
        ("/collective_rpc", [], 401),
        ("/collective_rpc", [(b"authorization", b"Bearer wrong")], 401),
        ("/v1/models", [(b"authorization", b"right")], 401),
        ("/health", [], 200),
        ("/health/", [], 401),
    ],
)
def test_only_who_knows_the_key_is_answered(path, headers, status, monkeypatch):
    first, *_ = answers({"type": "http", "path": path, "headers": headers}, monkeypatch)
    assert first["status"] == status


def test_a_socket_needs_the_key_and_the_start_of_the_server_does_not(monkeypatch):
    assert answers({"type": "websocket", "path": "/v1/realtime", "headers": []}, monkeypatch) == [
        {"type": "websocket.close", "code": 1008}
    ]
    assert answers({"type": "lifespan"}, monkeypatch) == [{"status": 200}]


def test_a_server_without_a_key_does_not_start(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(KeyError):
        Guard(lambda scope, receive, send: asyncio.sleep(0))

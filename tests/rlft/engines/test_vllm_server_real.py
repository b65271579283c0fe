"""Real `vllm serve` processes on a CPU: adapters and full weights that arrive, sabotage, and a kill."""

import contextlib
import copy
import os
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from rlft.config import Config
from rlft.engines.base import Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatEndpoint
from rlft.engines.server_requests import ServerRefusedError
from rlft.engines.serving import serve_command
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import EngineError
from rlft.models import save_policy
from rlft.models.origin import create_policy
from rlft.types import derive_seed
from tests.factories import user
from tests.needs import need_vllm
from tests.rlft.engines.vllm_policies import make_vllm_policy, move, scores
from tests.rlft.models.small_models import CHARACTERS

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

PROMPTS = [[5], [5, 6, 7, 8, 9, 10], [40, 5, 97], list(range(2, 92)), [5, 6, 7, 8, 9, 10], [61] * 200]
SEEDS = [derive_seed("test", place) for place in range(len(PROMPTS))]
NOT_THERE = r"does not (sample with|have) the policy's weights"
STARTED_WITHIN, ENDED_WITHIN = 240, 20  # seconds


@dataclass
class Server:
    """One server process in a group of its own, and the config it was started for."""

    config: Config
    process: subprocess.Popen
    log: Path

    @property
    def address(self):
        return self.config.rollout.server.addresses[0]

    def wait_until_healthy(self, deadline):
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):  # it does not listen yet
                if httpx.get(f"{self.address}/health", timeout=5, trust_env=False).status_code == 200:
                    return
            time.sleep(0.3)
        pytest.fail(f"the server did not start (exit code {self.process.poll()}):\n{self.log.read_text()[-4000:]}")

    def group(self):
        return [p for p in psutil.process_iter() if _group_of(p) == self.process.pid and p.status() != "zombie"]

    def signal(self, number):
        if self.group():
            os.killpg(self.process.pid, number)

    def stop(self):
        self.signal(signal.SIGTERM)
        psutil.wait_procs(self.group(), timeout=ENDED_WITHIN)
        self.signal(signal.SIGKILL)
        self.process.wait(ENDED_WITHIN)
        psutil.wait_procs(self.group(), timeout=ENDED_WITHIN)


def _group_of(process):
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None


def start_server(folder, kind, base):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = Config.model_validate(
        {
            "name": "server",
            "tasks": {"source": "jsonl", "path": "none.jsonl"},
            "environment": {"name": "none:None"},
            "policy": {
                "model": str(base),
                "device": "cpu",
                "lora": {"rank": 4, "alpha": 8} if kind == "lora" else None,
            },
            "rollout": {
                "engine": "vllm_server",
                "server": {
                    "addresses": [f"http://127.0.0.1:{port}"],
                    "attempts": 2,
                    "timeout_seconds": 60.0,
                },
                "vllm": {"cache_gib": 0.125},
                "batch_size": 64,
            },
        }
    )
    template = folder / "template.jinja"  # the model has none
    template.write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    command, variables = serve_command(config, folder / "unused", port=port, extra=("--chat-template", str(template)))
    log = folder / f"{kind}.log"
    quiet = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **quiet, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Server(config, process, log)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One for adapters and one for full weights, started at the same time."""
    need_vllm()
    folder = tmp_path_factory.mktemp("servers")
    policy = make_vllm_policy(tie_word_embeddings=True)
    base = save_policy(policy, folder / "base").path / "model"
    policy.tokenizer.save_pretrained(base)
    started = {}
    try:
        for kind in ("lora", "full"):
            started[kind] = start_server(folder, kind, base)
        deadline = time.monotonic() + STARTED_WITHIN
        for server in started.values():
            server.wait_until_healthy(deadline)
        yield started
    finally:
        for server in started.values():
            server.stop()
        left = [process for server in started.values() for process in server.group()]
        assert not left


@pytest.fixture(params=["lora", "full"])
def kind(request):
    return request.param


@pytest.fixture
def engine_and_policy(servers, kind):
    config = servers[kind].config
    engine = VllmServerEngine(config.rollout.engine_settings())
    yield engine, create_policy(config.policy, seed=0)
    engine.close()


def assert_right(policy, found):
    for prompt, row in zip(PROMPTS, found, strict=True):
        expected = scores(policy, prompt, row.token_ids, 1.0)
        np.testing.assert_allclose(row.logprobs, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["full"], indirect=True)
def test_its_chat_endpoint_answers_as_the_engine_samples(engine_and_policy, servers):
    engine, policy = engine_and_policy
    engine.load_policy(policy)
    said = CHARACTERS[5:9]
    ids = policy.tokenizer(said, add_special_tokens=False)["input_ids"]
    (expected,) = engine.generate([ids], Sampling(0.0, 8), [0])
    address, name = f"{servers['full'].address}/v1", str(servers["full"].config.policy.model)
    model = AskedModel(address, name, attempts=1, timeout_seconds=60.0)
    with contextlib.closing(ChatEndpoint(model)) as endpoint:
        answer = endpoint.ask([user(said)], [], Sampling(0.0, 8), 2**40)
        assert answer.message["content"] == policy.tokenizer.decode(expected.token_ids, skip_special_tokens=True)
        assert (answer.prompt_tokens, answer.completion_tokens) == (len(ids), len(expected.token_ids))
        assert (answer.is_cut, answer.calls_itself) == (expected.stop_reason == "length", name[:200])
        tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
        # It was not started for calls of tools, which it says when it is asked for the first time.
        with pytest.raises(ServerRefusedError, match=r"answers 400: .*tool"):
            endpoint.ask([user(said)], [tool], Sampling(0.0, 8), 0)
        assert endpoint.ask([user(said)], [], Sampling(1.0, 8, top_p=0.9, top_k=5, min_p=0.1), 0).message["content"]
    wrong = ChatEndpoint(AskedModel(address, "large", attempts=1))
    with contextlib.closing(wrong) as endpoint, pytest.raises(ServerRefusedError, match="answers 404"):
        endpoint.ask([user(said)], [], Sampling(0.0, 8), 0)


def adapters_of(server):
    models = httpx.get(f"{server.address}/v1/models", trust_env=False).json()["data"]
    return [model["id"] for model in models if model["id"].startswith("rlft-")]


def test_weights_arrive_again_and_again(engine_and_policy, kind, servers, tmp_path):
    engine, policy = engine_and_policy
    first = copy.deepcopy(policy.model)
    for update in range(3):
        move(policy, 2e-2, update)
        save_policy(policy, tmp_path / str(update))
        engine.load_policy(policy)
        assert engine.policy_hash == policy.metadata.weights_hash
        assert engine.metrics["engine/canary_logp_difference"] < 1e-5
        found = engine.generate(PROMPTS, Sampling(1.0, 16), SEEDS)
        assert_right(policy, found)
        names = adapters_of(servers[kind])
        if kind == "lora":
            (name,) = names
            assert policy.metadata.weights_hash in name
        else:
            assert names == []
    again = engine.generate(PROMPTS[::-1], Sampling(1.0, 16), SEEDS[::-1])[::-1]
    assert [row.token_ids.tolist() for row in again] == [row.token_ids.tolist() for row in found]
    policy.model, now = first, policy.model
    old = scores(policy, PROMPTS[3], found[3].token_ids, 1.0)
    assert np.abs(old - found[3].logprobs).max() > 0.05  # the updates were no small ones
    policy.model = now
    engine.close()
    assert adapters_of(servers[kind]) == []


def test_a_policy_that_another_run_left_on_the_server_can_be_loaded(engine_and_policy, servers, kind, tmp_path):
    engine, policy = engine_and_policy
    save_policy(policy, tmp_path / "policy")
    engine.load_policy(policy)  # and this run dies
    other = VllmServerEngine(engine.settings)
    other.load_policy(policy)
    assert_right(policy, other.generate(PROMPTS, Sampling(1.0, 16), SEEDS))
    other.close()


def test_the_last_weights_pushed_again_are_caught(engine_and_policy, monkeypatch):
    engine, policy = engine_and_policy
    move(policy, 2e-2)
    engine.load_policy(policy)
    last, (client,) = Path(engine._weights.folder.name), engine.servers.clients
    load, reload = client.load_adapter, client.reload_weights
    move(policy, 2e-2)
    with monkeypatch.context() as broken:
        broken.setattr(client, "load_adapter", lambda name, folder: load(name, last))
        broken.setattr(client, "reload_weights", lambda folder: reload(last))
        with pytest.raises(EngineError, match=NOT_THERE):
            engine.load_policy(policy)
    with pytest.raises(RuntimeError, match="load_policy first"):
        engine.generate(PROMPTS, Sampling(1.0, 16), SEEDS)
    engine.load_policy(policy)
    assert_right(policy, engine.generate(PROMPTS, Sampling(1.0, 16), SEEDS))


@pytest.mark.parametrize("kind", ["full"], indirect=True)
@pytest.mark.parametrize("call", ["reload_weights", "reset_prefix_cache"])
def test_full_weights_need_both_calls(engine_and_policy, monkeypatch, call):
    engine, policy = engine_and_policy
    move(policy, 2e-2)
    engine.load_policy(policy)
    move(policy, 2e-2)
    with monkeypatch.context() as broken:
        broken.setattr(engine.servers.clients[0], call, lambda *arguments: None)
        with pytest.raises(EngineError, match=NOT_THERE):
            engine.load_policy(policy)
    engine.load_policy(policy)
    assert_right(policy, engine.generate(PROMPTS, Sampling(1.0, 16), SEEDS))


def running(server):
    """How many requests the server works on."""
    lines = httpx.get(f"{server.address}/metrics", trust_env=False).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:num_requests_running"))


@pytest.mark.parametrize("kind", ["lora"], indirect=True)
def test_a_server_that_is_killed_leaves_errors_and_nothing_hangs(engine_and_policy, servers, kind):
    engine, policy = engine_and_policy
    policy.model.generation_config.eos_token_id = []  # nothing ends by itself: far more work than is waited for
    engine.load_policy(policy)
    found = []
    call = threading.Thread(
        target=lambda: found.extend(engine.generate([[5]] * 512, Sampling(1.0, 500), range(512))), daemon=True
    )
    call.start()
    deadline = time.monotonic() + 30
    while running(servers[kind]) == 0:
        assert time.monotonic() < deadline, "no request arrived"
    servers[kind].signal(signal.SIGKILL)
    killed = time.monotonic()
    call.join(30)
    assert not call.is_alive()
    assert time.monotonic() - killed < 10
    assert len(found) == 512
    lost = [row for row in found if row.error is not None]
    assert len(lost) > 400
    assert all(str(row.error).startswith("engine: ") and row.stop_reason == "error" for row in lost)
    with pytest.raises(EngineError, match="does not answer"):
        engine.load_policy(policy)

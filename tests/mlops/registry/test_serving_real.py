"""`rlft serve` with real vLLM and MLflow's own server, asked by the OpenAI client and at `/invocations`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest
import torch

from tests.e2e.conftest import ROOT, free_port
from tests.mlops.registry.registered import NAME, TOOL, Registered
from tests.needs import need_vllm
from tests.rlft.engines.vllm_policies import scores

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
STARTED_WITHIN = 300  # seconds
USER = {"role": "user", "content": "1+1="}


def deaf_to_nothing():
    """A test that runs under nohup or in the background of a shell has inherited that these are ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class Served:
    """A running `rlft serve`."""

    folder: Path
    registry: str
    options: tuple[str, ...]
    port: int = field(default_factory=free_port)

    def __post_init__(self):
        self.folder.mkdir()
        (self.folder / "tmp").mkdir()
        self.log = self.folder / "log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ZENML_", "MLFLOW_"))}
        own = ["--port", str(self.port), "--tracking-uri", self.registry]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cli", "serve", *self.options, *own],
                cwd=self.folder,
                env=inherited
                | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
                | {"TMPDIR": str(self.folder / "tmp")},
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=deaf_to_nothing,
            )
        self.url = f"http://127.0.0.1:{self.port}"

    def wait(self):
        deadline = time.monotonic() + STARTED_WITHIN
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", trust_env=False).status_code == 200:
                    return self
            except httpx.HTTPError:
                time.sleep(0.3)
        pytest.fail(f"it did not start (exit code {self.process.poll()}):\n{self.log.read_text()[-4000:]}")

    def version(self):
        return httpx.get(f"{self.url}/rlft/version", trust_env=False).json()

    def client(self):
        import openai

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    def programs(self):
        """Its children."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number):
        """End it by a signal; returns the exit code, and the seconds that it took for it and all its children."""
        family = self.programs()
        started = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(60)
        gone, alive = psutil.wait_procs(family, timeout=0)
        assert alive == []
        assert len(gone) > 0
        return code, time.monotonic() - started


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    need_vllm()
    found = Registered(tmp_path_factory.mktemp("registry"))
    found.add()
    found.promote("1")
    return found


@pytest.fixture(scope="module")
def servers(registered, tmp_path_factory):
    """All started at once: most of a start is one process importing."""
    folder, address = tmp_path_factory.mktemp("servers"), registered.client.tracking_uri
    options = {
        "adapter": (f"{NAME}@champion", "--log-conversations", "masked"),
        "merged": (f"models:/{NAME}/1", "--merge"),
        "mlflow": (f"{NAME}@champion", "--engine", "mlflow"),
    }
    started = {}
    try:
        for name, given in options.items():
            started[name] = Served(folder / name, address, given)
        yield {name: server.wait() for name, server in started.items()}
    finally:
        for server in started.values():
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(60)


def expected(policy, messages, count, tools=None):
    """Prompt and greedy answer by nothing but transformers."""
    read = policy.tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    ids = list(read)
    with torch.no_grad():
        while len(ids) < len(read) + count and (len(ids) == len(read) or ids[-1] not in policy.stop_token_ids()):
            ids.append(int(policy.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return read, ids[len(read) :]


def text(policy, ids):
    return policy.tokenizer.decode(ids, skip_special_tokens=True)


def shown(number):
    return [{"role": "system", "content": f"Be {number}."}, USER]


def ask(client, **options):
    return client.chat.completions.create(
        **{"model": NAME, "messages": [USER], "temperature": 0, "max_tokens": 12} | options
    )


@pytest.mark.parametrize("name", ["adapter", "merged"])
def test_vllm_has_the_policys_log_probabilities_in_its_context(servers, registered, name):
    policy = registered.policies["1"]
    answer = ask(servers[name].client(), logprobs=True, extra_body={"return_token_ids": True})
    (choice,) = answer.choices
    read, greedy = expected(policy, shown(1), 12, [TOOL])
    assert answer.prompt_token_ids == read
    assert choice.token_ids == greedy
    own = scores(policy, read, greedy, 1.0)
    theirs = [each.logprob for each in choice.logprobs.content]
    assert max(abs(a - b) for a, b in zip(own, theirs, strict=True)) < 1e-4


def test_a_stream_says_the_same(servers, registered):
    parts = list(ask(servers["adapter"].client(), stream=True))
    said = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert said == text(registered.policies["1"], expected(registered.policies["1"], shown(1), 12, [TOOL])[1])
    assert len(parts) > 2


def test_tools_and_system_prompt_of_a_request_count(servers, registered):
    client, policy = servers["adapter"].client(), registered.policies["1"]
    other = {"type": "function", "function": {"name": "multiply", "parameters": {"type": "object", "properties": {}}}}
    own = [{"role": "system", "content": "No."}, USER]
    for options, messages, tools in (
        ({"tools": [other], "tool_choice": "auto"}, shown(1), [other]),
        ({"messages": own}, own, [TOOL]),
        ({"tools": [], "messages": own}, own, None),
    ):
        answer = ask(client, **options)
        read, greedy = expected(policy, messages, 12, tools)
        assert answer.usage.prompt_tokens == len(read)
        assert (answer.choices[0].message.content or "") == text(policy, greedy)


def test_the_client_is_told_of_another_model_and_of_a_wrong_request(servers):
    import openai

    client = servers["adapter"].client()
    assert [model.id for model in client.models.list()] == [NAME]
    with pytest.raises(openai.NotFoundError, match="the model 'gpt-4' is not served here"):
        ask(client, model="gpt-4")
    with pytest.raises(openai.BadRequestError):
        ask(client, max_tokens=100_000)


def test_mlflows_server_applies_the_context(servers, registered):
    server, policy = servers["mlflow"], registered.policies["1"]
    body = {"messages": [USER], "max_new_tokens": 12}
    answer = httpx.post(f"{server.url}/invocations", json=body, trust_env=False, timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.json() == [text(policy, expected(policy, shown(1), 12, [TOOL])[1])]
    assert answer.headers["rlft-version"] == "1"
    refused = httpx.post(f"{server.url}/invocations", json={"nothing": 1}, trust_env=False, timeout=120)
    assert (refused.status_code, refused.headers["rlft-model"]) == (400, NAME)


def test_ctrl_c_and_sigterm_end_all_within_ten_seconds(servers, registered):
    for name, number, code in (("adapter", signal.SIGINT, 130), ("mlflow", signal.SIGTERM, 143)):
        server = servers[name]
        ended, seconds = server.end(number)
        assert ended == code, server.log.read_text()[-2000:]
        assert seconds < 10
        assert list((server.folder / "tmp").glob("rlft-serve-*")) == []
        assert "Traceback" not in server.log.read_text()
    experiment = registered.client.get_experiment_by_name(f"{NAME}-served")
    traces = registered.client.search_traces(locations=[experiment.experiment_id], max_results=500)
    assert {(t.info.tags["rlft.version"], t.info.tags["rlft.alias"]) for t in traces} == {("1", "champion")}
    assert any(t.data.spans[0].inputs["messages"] == shown(1) for t in traces)


def test_a_vllm_that_is_killed_ends_the_server(servers):
    server = servers["merged"]
    (vllm, *_) = server.programs()
    vllm.kill()
    assert server.process.wait(60) == 1
    assert "vLLM has ended with exit code -9; its last words:" in server.log.read_text()


def test_a_vllm_that_does_not_come_up_shows_its_last_words(registered, tmp_path):
    server = Served(tmp_path / "bad", registered.client.tracking_uri, (f"{NAME}/1", "--no-such-option"))
    assert server.process.wait(STARTED_WITHIN) == 2
    said = server.log.read_text()
    assert "vLLM did not start: it ended with exit code 2; its last words:" in said
    assert "--no-such-option" in said
    assert "Traceback" not in said


def test_a_start_that_is_interrupted_leaves_nothing(registered, tmp_path):
    server = Served(tmp_path / "cut", registered.client.tracking_uri, (f"{NAME}/1", "--merge"))
    deadline = time.monotonic() + STARTED_WITHIN
    while not server.programs():
        assert time.monotonic() < deadline, server.log.read_text()
        assert server.process.poll() is None, server.log.read_text()
        time.sleep(0.1)
    assert len(list((server.folder / "tmp").glob("rlft-serve-*/vllm.log"))) == 1
    code, seconds = server.end(signal.SIGINT)
    assert code == 130
    assert seconds < 10
    assert list((server.folder / "tmp").glob("rlft-serve-*")) == []

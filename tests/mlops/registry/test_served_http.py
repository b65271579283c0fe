"""A version in MLflow's own server, asked over HTTP in every form, and in process in the same forms."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlops.registry.logged_model import EXAMPLE, ServedFiles
from mlops.registry.versions import register_policy_version
from rlft.evaluation.promotion import Decision
from rlft.models.tokens import character_tokenizer
from tests.e2e.conftest import free_port
from tests.mlflow_stores import new_store
from tests.mlops.registry.test_versions import greedy, qwen, write_policy

TEMPLATE = (
    "{% if tools %}T{{ tools | length }}{% endif %}{% for m in messages %}<{{ m['role'] }}:{{ m['content'] }}>"
    "{% endfor %}{% if add_generation_prompt %}={% endif %}"
)
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
ASK = [{"role": "user", "content": "hi"}]
OWN = [{"role": "system", "content": "no"}, *ASK]


def letters():
    tokenizer = character_tokenizer("".join(map(chr, range(32, 127))) + "\n")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """The folder of a registered version whose environment has a system prompt and a tool."""
    folder = tmp_path_factory.mktemp("http")
    policy = write_policy(folder / "policy", qwen(letters(), 0), letters())
    client = MlflowClient(tracking_uri=new_store(folder))
    experiment = client.create_experiment("http", artifact_location=f"file:{folder}/artifacts")
    register_policy_version(
        client.tracking_uri,
        client.create_run(experiment).info.run_id,
        "http",
        ServedFiles(policy, {"context.json": json.dumps({"system_prompt": "yes", "tools": [TOOL]})}, 6),
        Decision(True, ()),
    )
    return Path(client.get_model_version_download_uri("http", "1").removeprefix("file://"))


@pytest.fixture(scope="module")
def loaded(version):
    return mlflow.pyfunc.load_model(str(version))


def expected(text: str, count: int = 6, system: str = "yes") -> str:
    """What the model says to a prompt that is rendered here by hand."""
    plain = character_tokenizer("".join(map(chr, range(32, 127))) + "\n")
    return greedy(qwen(plain, 0), plain, f"T1<system:{system}><user:{text}>=", count)


@pytest.mark.parametrize("given", [{"prompt": "hi"}, {"messages": ASK}, pd.DataFrame({"prompt": ["hi"]})])
def test_it_answers_as_it_was_trained_to_be_asked(loaded, given):
    assert loaded.predict(given) == [expected("hi")]


def test_a_conversation_keeps_its_own_system_message(loaded):
    assert loaded.predict({"messages": OWN}) == [expected("hi", system="no")] != [expected("hi")]
    assert loaded.predict([{"messages": OWN}, {"messages": ASK}]) == [expected("hi", system="no"), expected("hi")]


def test_a_conversation_with_calls_of_tools_is_taken(loaded):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}]
    talk += [{"role": "tool", "content": "x", "tool_call_id": "c1"}]
    [said] = loaded.predict({"messages": talk}, params={"max_new_tokens": 1})
    assert isinstance(said, str)


def test_parameters(loaded):
    assert loaded.predict({"prompt": "hi"}, params={"max_new_tokens": 2}) == [expected("hi", 2)]
    one, other = (loaded.predict({"prompt": "hi"}, params={"temperature": 3.0, "seed": seed}) for seed in (1, 2))
    assert one == loaded.predict({"prompt": "hi"}, params={"temperature": 3.0, "seed": 1}) != other
    for name, value in {"max_new_tokens": 0, "temperature": -1.0, "seed": -1}.items():
        with pytest.raises(MlflowException, match=f"{name} is {value}"):
            loaded.predict({"prompt": "hi"}, params={name: value})


def test_what_does_not_fit_the_context_is_told_before_anything_is_answered(loaded):
    # 25 characters of "T1<system:yes><user:hi>=" less 1; the model reads 64 tokens
    assert len("T1<system:yes><user:hi>=") == 24
    assert len(loaded.predict({"prompt": "hi"}, params={"max_new_tokens": 40})) == 1
    with pytest.raises(MlflowException, match=r"has 24 tokens and its answer may have 41 .* more than the 64 that"):
        loaded.predict({"prompt": "hi"}, params={"max_new_tokens": 41})


def test_the_signature_is_that_of_a_chat_and_has_an_example(loaded, version):
    assert loaded.metadata.get_input_schema().input_names() == ["messages", "prompt"]
    assert loaded.input_example == EXAMPLE
    assert json.loads((version / "serving_input_example.json").read_text()) == EXAMPLE


@pytest.fixture(scope="module")
def server(version, tmp_path_factory):
    """The address of `mlflow models serve`, which knows nothing of rlft."""
    port, folder = free_port(), tmp_path_factory.mktemp("server")
    bin = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MLFLOW_TRACKING_URI")}
    environment |= {"PATH": f"{bin}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [bin / "mlflow", "models", "serve", "-m", version, "-h", "127.0.0.1", "-p", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*map(str, command), "--env-manager", "local"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address, until = f"http://127.0.0.1:{port}", time.monotonic() + 300
    try:
        while not _answers(address):
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()  # noqa: PT018
            time.sleep(0.5)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _answers(address):
    try:
        return httpx.get(f"{address}/ping", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def ask(server, body):
    return httpx.post(f"{server}/invocations", json=body, timeout=120)


@pytest.mark.slow
def test_every_form_over_http(server, version):
    answer, two = expected("hi"), [expected("hi"), expected("ho")]
    for body, said in [
        ({"inputs": [{"prompt": "hi"}, {"prompt": "ho"}]}, {"predictions": two}),
        ({"inputs": {"messages": OWN}}, {"predictions": [expected("hi", system="no")]}),
        ({"dataframe_records": [{"messages": ASK}]}, {"predictions": [answer]}),
        ({"inputs": [{"prompt": "hi"}], "params": {"max_new_tokens": 2}}, {"predictions": [expected("hi", 2)]}),
        ({"messages": ASK}, [answer]),
        ({"messages": ASK, "max_new_tokens": 2, "temperature": 0}, [expected("hi", 2)]),
        ({"prompt": "hi"}, [answer]),
    ]:
        response = ask(server, body)
        assert (response.status_code, response.json()) == (200, said), body
    example = json.loads((version / "serving_input_example.json").read_text())
    assert ask(server, {**example, "max_new_tokens": 1}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"question": "hi"}, "must be a JSON dictionary"),
        (["hi"], "must be a JSON dictionary"),
        ({"inputs": [{"question": "hi"}]}, "there is nothing to answer; send `messages`"),
        ({"inputs": [{"prompt": "h" * 99}]}, "more than the 64 that the model can read; shorten the prompt"),
        ({"messages": [{"role": "user"}]}, "message 1 of row 0 has no text as content"),
        ({"prompt": "hi", "temperature": -1}, "temperature is -1.0; write 0"),
        ({"prompt": "hi", "temperature": "hot"}, "Failed to validate type and shape for 'temperature'"),
    ],
)
def test_what_cannot_be_answered_is_400_with_what_to_send_and_no_trace(server, body, what):
    response = ask(server, body)
    assert response.status_code == 400
    assert what in response.json()["message"]
    assert not re.search("Traceback|stack_trace", response.text)

"""The command that starts a server: what it is given for adapters, for full weights, and what is refused."""

import sys

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from rlft.config import Config
from rlft.engines import kinds, serving
from rlft.engines.serving import serve_command
from rlft.errors import EngineError, PolicyError
from tests.factories import CHARACTERS

SCRATCH = {"from_scratch": {"characters": CHARACTERS, "hidden_size": 32, "num_hidden_layers": 2}}
LORA = {"model": "some/model", "lora": {"rank": 12, "alpha": 8}}
FULL = {"model": "some/model"}
DEVELOPMENT, UPDATING = "VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    monkeypatch.setattr(kinds, "is_installed", lambda _: True)
    monkeypatch.setattr(serving, "context_of", lambda model, revision: 5000)


def make_config(policy, **rollout):
    return Config.model_validate(
        {
            "name": "served",
            "tasks": {"source": "jsonl", "path": "none.jsonl"},
            "environment": {"name": "none:None"},
            "policy": {"device": "cpu", **policy},
            "rollout": {"max_completion_length": 8, **rollout},
        }
    )


def value(command, flag):
    assert command.count(flag) == 1
    return command[command.index(flag) + 1]


def test_what_every_server_is_given(tmp_path):
    config = make_config(FULL | {"revision": "abc"}, batch_size=5, vllm={"max_model_len": 99, "cache_gib": 0.5})
    command, _ = serve_command(config, tmp_path, port=8765, extra=["--seed", "3"])
    assert command[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    expected = {
        "--model": "some/model",
        "--revision": "abc",
        "--host": "127.0.0.1",
        "--port": "8765",
        "--dtype": "float32",
        "--max-num-seqs": "5",
        "--max-model-len": "99",
        "--logprobs-mode": "processed_logprobs",  # of the distribution that is sampled from
        "--generation-config": "vllm",  # no sampling settings of the model's own
        "--kv-cache-memory-bytes": str(2**29),
    }
    assert {flag: value(command, flag) for flag in expected} == expected
    assert "--enable-scale-out" in command  # tokens in, tokens out
    assert "--enforce-eager" in command
    assert command[-2:] == ["--seed", "3"]
    assert list(tmp_path.iterdir()) == []  # a model with a name is not copied


def test_settings_that_are_not_made_are_not_given(tmp_path):
    command, _ = serve_command(make_config(FULL), tmp_path)
    assert not {"--revision", "--max-model-len", "--gpu-memory-utilization"} & set(command)
    assert "--no-enable-chunked-prefill" in command
    assert value(command, "--max-num-batched-tokens") == "5000"  # so a step must hold the longest prompt


def test_the_context_is_that_of_the_model(tmp_path, monkeypatch):
    monkeypatch.undo()
    AutoConfig.for_model("qwen3", max_position_embeddings=77).save_pretrained(tmp_path)
    assert serving.context_of(str(tmp_path), None) == 77
    with pytest.raises(PolicyError, match="does not load"):
        serving.context_of(str(tmp_path / "none"), None)


def test_on_a_gpu_the_memory_is_a_share(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "choose_device", lambda device: torch.device("cuda"))
    command, _ = serve_command(make_config(FULL, vllm={"gpu_memory_utilization": 0.25}), tmp_path)
    assert value(command, "--gpu-memory-utilization") == "0.25"
    assert not {"--enforce-eager", "--kv-cache-memory-bytes"} & set(command)


def test_adapters_need_room_and_leave(tmp_path):
    command, variables = serve_command(make_config(LORA), tmp_path)
    assert "--enable-lora" in command
    assert value(command, "--max-lora-rank") == "16"  # the next that vLLM takes
    assert value(command, "--max-loras") == "2"  # the new one beside the old one
    assert variables[UPDATING] == "1"
    assert DEVELOPMENT not in variables


def test_full_weights_need_the_routes_of_a_developer(tmp_path):
    command, variables = serve_command(make_config(FULL), tmp_path)
    assert variables[DEVELOPMENT] == "1"
    assert UPDATING not in variables
    assert not [word for word in command if "lora" in word]


@pytest.mark.parametrize(("rank", "held"), [(1, 1), (2, 8), (8, 8), (9, 16), (100, 128), (257, 320), (512, 512)])
def test_the_rank_that_holds_an_adapter(tmp_path, rank, held):
    command, _ = serve_command(make_config(LORA | {"lora": {"rank": rank}}), tmp_path)
    assert value(command, "--max-lora-rank") == str(held)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "gpu.example.org", "::"])
def test_full_weights_are_only_pushed_within_this_machine(tmp_path, host):
    with pytest.raises(EngineError, match=f"only pushed to a server on loopback, not on {host}") as error:
        serve_command(make_config(FULL), tmp_path, host=host)
    assert error.value.fix == "train an adapter (policy.lora), or serve on 127.0.0.1"
    assert value(serve_command(make_config(LORA), tmp_path, host=host)[0], "--host") == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_takes_full_weights(tmp_path, host):
    assert value(serve_command(make_config(FULL), tmp_path, host=host)[0], "--host") == host


def test_a_model_from_scratch_is_written_where_the_server_finds_it(tmp_path):
    command, variables = serve_command(make_config(SCRATCH), tmp_path / "base")
    assert value(command, "--model") == str(tmp_path / "base")
    assert variables[DEVELOPMENT] == "1"
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (32, 2)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    assert tokenizer.decode(tokenizer.encode("1+2=")) == "1+2="


def test_vllm_that_is_not_installed_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "is_installed", lambda _: False)
    with pytest.raises(EngineError, match="vllm is not installed") as error:
        serve_command(make_config(FULL), tmp_path)
    assert error.value.fix.startswith("make setup-vllm")


@pytest.mark.parametrize(("cores", "bound"), [(1, {"OMP_NUM_THREADS": "1"}), (2, {"OMP_NUM_THREADS": "1"}), (5, {})])
def test_on_few_cores_threads_are_not_bound_to_one(tmp_path, monkeypatch, cores, bound):
    monkeypatch.setattr(serving, "cores_here", lambda: cores)
    _, variables = serve_command(make_config(FULL), tmp_path)
    found = {name: value for name, value in variables.items() if "OMP" in name}
    assert found == (bound | {"VLLM_CPU_OMP_THREADS_BIND": "nobind"} if bound else {})


@pytest.mark.parametrize("option", ["--host", "--host=0.0.0.0", "--port", "--uds"])
def test_where_it_listens_is_not_passed_on(tmp_path, option):
    with pytest.raises(EngineError, match="is not passed on"):
        serve_command(make_config(FULL), tmp_path, extra=[option, "0.0.0.0"])

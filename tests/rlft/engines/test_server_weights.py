"""How weights come to servers: what is refused before it breaks one, and what is said for a transfer between GPUs."""

from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError

from rlft.config import EngineSettings, ServerSettings
from rlft.engines.server_clients import ServerClient
from rlft.engines.server_requests import ServerGoneError
from rlft.engines.server_weights import ServerWeights, WeightTransfer, own_address
from rlft.engines.vllm_process import vllm_module
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import EngineError, StorageError
from rlft.files import folder_prefix
from rlft.models.export import checkpoint_weights
from tests.left_behind import left_behind
from tests.needs import need_vllm
from tests.rlft.engines.servers import LOAD, RELOAD, RESET, SmallServer
from tests.rlft.models.small_models import add_lora, make_model, policy_of

TRANSFER = ("/get_world_size", "/init_weight_transfer_engine")
UPDATE = ("/start_weight_update", "/update_weights", "/finish_weight_update")


@pytest.fixture
def server():
    server = SmallServer()
    yield server
    server.stop()


def make_engine(server, **settings):
    settings = ServerSettings(addresses=[server.url], attempts=2, timeout_seconds=5.0, **settings)
    return VllmServerEngine(EngineSettings(engine="vllm_server", server=settings))


@pytest.mark.parametrize(
    ("family", "other", "name"),
    [
        ("qwen3", {"vocab_size": 40}, "vocab_size"),
        ("qwen3", {"num_hidden_layers": 3}, "num_hidden_layers"),
        ("gpt2", {"n_inner": 48}, "n_inner"),
    ],
)
def test_a_server_of_another_shape_is_left_as_it_is(server, tmp_path, family, other, name):
    make_model(family, **other).config.save_pretrained(tmp_path)
    server.root = str(tmp_path)
    engine = make_engine(server)
    with pytest.raises(EngineError, match=rf"was started with .*, whose {name} is {other[name]}; the policy's is"):
        engine.load_policy(policy_of(make_model(family)))
    assert server.counts[RELOAD] == 0
    make_model("qwen3").config.save_pretrained(tmp_path)
    engine.load_policy(policy_of(make_model("qwen3")))
    assert server.counts[RELOAD] == 1
    engine.close()


def test_an_adapter_on_a_model_of_another_shape_is_not_loaded(server, tmp_path):
    make_model("qwen3", num_hidden_layers=3).config.save_pretrained(tmp_path)
    server.root = str(tmp_path)
    engine = make_engine(server)
    with pytest.raises(EngineError, match="whose num_hidden_layers is 3; the policy's is 2"):
        engine.load_policy(policy_of(add_lora(make_model("qwen3"))))
    assert server.counts[LOAD] == 0
    engine.close()


@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_files_that_a_killed_run_left_go_with_the_next_push(server, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left_behind("weights", tmp_path)
    engine = make_engine(server)
    engine.load_policy(policy_of(make_model("qwen3") if kind == "full" else add_lora(make_model("qwen3"))))
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith(folder_prefix("weights"))
    engine.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_a_disk_that_does_not_take_the_weights_says_so(server, tmp_path, monkeypatch, kind):
    engine = make_engine(server)
    policy = policy_of(make_model("qwen3") if kind == "full" else add_lora(make_model("qwen3")))
    with monkeypatch.context() as no_disk:
        no_disk.setattr("tempfile.tempdir", str(tmp_path / "missing"))
        with pytest.raises(StorageError, match="missing: weights for the engine could not be written") as error:
            engine.load_policy(policy)
    assert "TMPDIR" in error.value.fix
    engine.load_policy(policy)
    engine.close()


def test_a_full_disk_says_so(server, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("rlft.engines.server_weights.save_file", full)
    with pytest.raises(StorageError, match="No space left on device"):
        make_engine(server).load_policy(policy_of(make_model("qwen3")))


@pytest.fixture
def nccl(monkeypatch):
    """vLLM's own sender, without the two calls that need GPUs; what would have been sent, and to which group."""
    need_vllm()
    module, seen = vllm_module(".distributed.weight_transfer.nccl_engine"), SimpleNamespace(groups=[], sent=[])

    def join(info):
        seen.groups.append(info)
        return SimpleNamespace(destroy=lambda: seen.groups.append("left"))

    def broadcast(iterator, group, **options):
        seen.sent.append([(name, tensor.clone()) for name, tensor in iterator])

    monkeypatch.setattr(module, "open_trainer_endpoint", join)
    monkeypatch.setattr(module, "packed_nccl_broadcast_producer", broadcast)
    return seen


def on_gpu(model):
    return SimpleNamespace(model=model, device=torch.device("cuda"), metadata=SimpleNamespace(kind="full"))


def test_every_weight_is_announced_and_sent_in_the_same_order(server, nccl):
    client, model = ServerClient(server.url, ServerSettings(timeout_seconds=5.0)), make_model("qwen3")
    transfer = WeightTransfer(client)
    transfer.send(on_gpu(model))
    later = make_model("qwen3", seed=1)
    transfer.send(on_gpu(later))
    assert [path for path, _ in server.requests] == [*TRANSFER, *UPDATE, *UPDATE]
    (info,) = nccl.groups
    assert info.world_size == 3  # the trainer and two workers
    init = server.bodies(TRANSFER[1])[0]["init_info"]
    assert (init["master_address"], init["master_port"]) == (info.master_address, info.master_port)
    assert (init["rank_offset"], init["world_size"], init["packed"]) == (1, 3, True)
    for sent, body, source in zip(nccl.sent, server.bodies(UPDATE[1]), (model, later), strict=True):
        expected = list(checkpoint_weights(source))
        told = body["update_info"]
        assert told["names"] == [name for name, _ in sent] == [name for name, _ in expected]
        assert told["shapes"] == [list(tensor.shape) for _, tensor in expected]
        assert set(told["dtype_names"]) == {"float32"}
        assert all(one.equal(other) for (_, one), (_, other) in zip(sent, expected, strict=True))
    transfer.close()
    transfer.close()
    assert nccl.groups[1:] == ["left"]


@pytest.mark.parametrize(
    ("path", "status", "error"), [(UPDATE[1], 400, EngineError), (UPDATE[0], 503, ServerGoneError)]
)
def test_nothing_is_told_twice(server, nccl, path, status, error):
    server.fault = lambda asked, number: status if asked == path else None
    transfer = WeightTransfer(ServerClient(server.url, ServerSettings(attempts=3, timeout_seconds=5.0)))
    with pytest.raises(error, match=f"answers {status}"):
        transfer.send(on_gpu(make_model("qwen3")))
    assert server.counts[path] == 1
    assert server.counts[UPDATE[2]] == 0


def test_a_server_that_was_left_out_joins_anew(server, nccl):
    client = ServerClient(server.url, ServerSettings(timeout_seconds=5.0))
    weights, policy = ServerWeights(ServerSettings(weight_transfer="nccl")), on_gpu(make_model("qwen3"))
    for _ in range(2):
        weights.push(policy, lambda action, **_: action(client))
    assert (len(nccl.groups), len(nccl.sent)) == (1, 2)
    weights.left_out(client)
    weights.push(policy, lambda action, **_: action(client))
    assert (len(nccl.groups), len(nccl.sent)) == (2, 3)
    weights.close([client])
    assert nccl.groups[2:] == ["left"]
    assert server.counts[RESET] == 3
    assert server.counts[RELOAD] == 0


def test_on_a_cpu_weights_go_through_a_folder(server):
    engine = make_engine(server, weight_transfer="nccl")
    with pytest.raises(EngineError, match="the policy is on a CPU") as error:
        engine.load_policy(policy_of(make_model("qwen3")))
    assert error.value.where == "rollout.server.weight_transfer"
    engine.close()


def test_the_address_is_the_one_the_server_sees(server):
    host, port = own_address(server.url)
    assert host == "127.0.0.1"
    assert 1024 <= port < 65536

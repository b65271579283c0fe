"""How weights come to servers: what is left behind, and disks that do not take them."""

import pytest
from safetensors import SafetensorError

from rlft.config import EngineSettings, ServerSettings
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import StorageError
from rlft.files import folder_prefix
from tests.left_behind import left_behind
from tests.rlft.engines.servers import SmallServer
from tests.rlft.models.small_models import add_lora, make_model, policy_of


@pytest.fixture
def server():
    server = SmallServer()
    yield server
    server.stop()


def make_engine(server, **settings):
    settings = ServerSettings(addresses=[server.url], attempts=2, timeout_seconds=5.0, **settings)
    return VllmServerEngine(EngineSettings(engine="vllm_server", server=settings))


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

    monkeypatch.setattr("rlft.engines.vllm_server.save_file", full)
    with pytest.raises(StorageError, match="No space left on device"):
        make_engine(server).load_policy(policy_of(make_model("qwen3")))

"""Which engine a setting stands for, and settings that cannot work."""

import pytest
from pydantic import ValidationError

from rlft.config import EngineSettings, RolloutConfig
from rlft.engines import create, vllm_process
from rlft.engines.create import choose_engine, create_engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.engines.vllm_engine import VllmEngine
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import EngineError
from tests.factories import make_policy

ADDRESSES = ["http://127.0.0.1:8000", "http://127.0.0.1:8001/"]


@pytest.mark.parametrize(
    ("engine", "device", "installed", "expected"),
    [
        ("auto", "cpu", True, "transformers"),
        ("auto", "cpu", False, "transformers"),
        ("auto", "cuda", True, "vllm"),
        ("auto", "cuda", False, "transformers"),
        ("transformers", "cuda", True, "transformers"),
        ("vllm", "cpu", True, "vllm"),
        ("vllm", "cpu", False, "vllm"),  # what was asked for is never replaced: it says what is missing
        ("vllm_server", "cuda", False, "vllm_server"),
    ],
)
def test_which_engine(monkeypatch, engine, device, installed, expected):
    monkeypatch.setattr(vllm_process, "is_installed", lambda: installed)
    assert choose_engine(engine, device) == expected


def test_engines_get_their_settings():
    plain = create_engine(EngineSettings(engine="transformers"), batch_size=7, device_type="cpu")
    assert (type(plain), plain.batch_size) == (TransformersEngine, 7)
    settings = EngineSettings(engine="vllm", max_logprob_difference=0.5)
    own = create_engine(settings, batch_size=7, device_type="cpu")
    assert (type(own), own.batch_size, own.settings) == (VllmEngine, 7, settings)
    settings = EngineSettings.model_validate({"engine": "vllm_server", "server": {"addresses": ADDRESSES}})
    served = create_engine(settings, batch_size=7, device_type="cpu")
    assert type(served) is VllmServerEngine
    assert [client.address for client in served.servers.clients] == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    for engine in (plain, own, served):
        assert engine.policy_hash == ""
        assert dict(engine.metrics) == {}


def test_auto_on_a_cpu_is_transformers():
    assert type(create_engine(EngineSettings(), batch_size=1, device_type="cpu")) is TransformersEngine


def test_closing_an_engine_that_never_started_does_nothing():
    for name in ("transformers", "vllm", "vllm_server"):
        settings = EngineSettings.model_validate({"engine": name, "server": {"addresses": ["http://127.0.0.1:1"]}})
        engine = create.create_engine(settings, batch_size=1, device_type="cpu")
        engine.close()
        engine.close()
        assert engine.policy_hash == ""


def test_vllm_that_is_not_installed_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(vllm_process, "is_installed", lambda: False)
    engine = create_engine(EngineSettings(engine="vllm"), batch_size=1, device_type="cpu")
    with pytest.raises(EngineError, match="vLLM is not installed") as error:
        engine.load_policy(make_policy())
    assert (error.value.where, error.value.fix) == (
        "rollout.engine",
        "make setup-vllm, or set rollout.engine: transformers",
    )


@pytest.mark.parametrize("section", [EngineSettings, RolloutConfig])
def test_servers_must_be_named(section):
    with pytest.raises(ValidationError, match=r"server\.addresses, such as \[http://127\.0\.0\.1:8000\].*serve-engine"):
        section(engine="vllm_server")


@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": "sglang"},
        {"max_logprob_difference": 0.0},
        {"vllm": {"cache_gib": 0.0}},
        {"vllm": {"gpu_memory_utilization": 1.0}},
        {"vllm": {"max_model_len": 1}},
        {"vllm": {"unknown": 1}},
        {"server": {"attempts": 0}},
        {"server": {"concurrency": 0}},
        {"server": {"timeout_seconds": 0.0}},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong):
    ((name, value),) = wrong.items()
    place = (name, *value) if isinstance(value, dict) else (name,)
    with pytest.raises(ValidationError) as error:
        EngineSettings.model_validate(wrong)
    assert [row["loc"] for row in error.value.errors()] == [place]


def test_the_engines_part_of_a_rollout_config():
    content = {"engine": "vllm_server", "max_logprob_difference": 0.5, "server": {"addresses": ADDRESSES}}
    rollout = RolloutConfig.model_validate({**content, "temperature": 0.5, "batch_size": 3})
    assert rollout.engine_settings() == EngineSettings.model_validate(content)


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://[::1", "http://h:0", "http://h:99999", "http://h:80/v1",
     "http://h:80?a=1", "http://h?", "http://h#x", "http://h#", "http://h\n:80", " http://h", "http://h\t",
     "http://" + 64 * "h", "http://a..b"],
)  # fmt: skip
def test_what_is_no_address_of_a_server(address):
    with pytest.raises(ValidationError, match="is no address such as"):
        EngineSettings.model_validate({"server": {"addresses": [address]}})


@pytest.mark.parametrize("address", ["http://user:secret@h", "http://secret@h:80", "http://user:secret@h:99999"])
def test_a_password_is_refused_and_not_shown(address):
    with pytest.raises(ValidationError) as error:
        EngineSettings.model_validate({"server": {"addresses": [address]}})
    (row,) = error.value.errors()
    assert row["msg"] == (
        "Value error, server.addresses: what has an @, and may hold a password, is no address such as "
        "http://127.0.0.1:8000"
    )


@pytest.mark.parametrize("address", ["http://" + 63 * "h", "http://[::1]:80", "https://a.b_c.:80/"])
def test_what_is_an_address_of_a_server(address):
    assert EngineSettings.model_validate({"server": {"addresses": [address]}}).server.addresses == [address]


def test_a_server_is_named_once():
    with pytest.raises(ValidationError, match="'http://h:80/' stands twice"):
        EngineSettings.model_validate({"server": {"addresses": ["http://h:80", "http://[::1]:80", "http://h:80/"]}})

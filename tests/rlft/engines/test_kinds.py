"""Which engine a setting stands for, what each can do, and settings that cannot work."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from rlft.config import EngineSettings, RolloutConfig, ServerSettings
from rlft.config.file import load_config
from rlft.engines import kinds
from rlft.engines.base import Sampling
from rlft.engines.kinds import ENGINES, vllm
from rlft.engines.transformers_engine import TransformersEngine
from rlft.engines.vllm_engine import VllmEngine
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import ConfigError, EngineError
from rlft.estimation import machine
from rlft.estimation.probe import run_probe
from rlft.estimation.readiness import find_problems
from tests.e2e.conftest import TINY
from tests.factories import make_policy
from tests.rlft.engines.parrot import Parrot

ADDRESSES = ["http://127.0.0.1:8000", "http://127.0.0.1:8001/"]
NAMED = ServerSettings(addresses=ADDRESSES)


def make(settings, batch_size=7):
    return settings.kind.on("cpu").create(settings, batch_size)


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
    monkeypatch.setattr(vllm, "is_installed", lambda _: installed)
    assert EngineSettings(engine=engine, server=NAMED).kind.on(device).name == expected


def test_engines_get_their_settings():
    plain = make(EngineSettings(engine="transformers"))
    assert (type(plain), plain.batch_size) == (TransformersEngine, 7)
    settings = EngineSettings(engine="vllm", max_logprob_difference=0.5)
    own = make(settings)
    assert (type(own), own.batch_size, own.settings) == (VllmEngine, 7, settings)
    settings = EngineSettings.model_validate({"engine": "vllm_server", "server": {"addresses": ADDRESSES}})
    served = make(settings)
    assert type(served) is VllmServerEngine
    assert [client.address for client in served.servers.clients] == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    for engine in (plain, own, served):
        assert engine.policy_hash == ""
        assert dict(engine.metrics) == {}


def test_auto_on_a_cpu_is_transformers():
    assert type(make(EngineSettings())) is TransformersEngine


def test_closing_an_engine_that_never_started_does_nothing():
    for name in ("transformers", "vllm", "vllm_server"):
        settings = EngineSettings.model_validate({"engine": name, "server": {"addresses": ["http://127.0.0.1:1"]}})
        engine = make(settings)
        engine.close()
        engine.close()
        assert engine.policy_hash == ""


def test_vllm_that_is_not_installed_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(kinds, "is_installed", lambda _: False)
    engine = make(EngineSettings(engine="vllm"))
    with pytest.raises(EngineError, match="vllm is not installed") as error:
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
     "http://h:80?a=1", "http://h?", "http://h#x", "http://h#", "http://h\n:80", " http://h", "http://h\t"],
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
        "Value error, what has an @, and may hold a password, is no address such as http://127.0.0.1:8000"
    )


@pytest.mark.parametrize("address", ["http://" + 63 * "h", "http://[::1]:80", "https://a.b_c.:80"])
def test_what_is_an_address_of_a_server(address):
    assert EngineSettings.model_validate({"server": {"addresses": [address]}}).server.addresses == [address]


@pytest.fixture
def serve():
    """Starts servers that give every question one answer: a status and a text."""
    servers = []

    def start(status: int, text: str) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def asked(*addresses: str) -> EngineSettings:
    return EngineSettings(engine="vllm_server", server=ServerSettings(addresses=list(addresses)))


def check(settings: EngineSettings) -> None:
    settings.kind.check_here(settings)


def refusal(settings: EngineSettings) -> EngineError:
    with pytest.raises(EngineError) as caught:
        check(settings)
    return caught.value


def test_vllm_that_is_missing_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setattr(kinds, "is_installed", lambda _: False)
    error = refusal(EngineSettings(engine="vllm"))
    assert (error.where, error.what) == ("rollout.engine", "vllm is not installed")
    assert "make setup-vllm" in error.fix
    EngineSettings(engine="auto").kind.check_here(EngineSettings())  # which does without it


def test_a_folder_called_vllm_is_not_vllm(monkeypatch, tmp_path):
    (tmp_path / "vllm").mkdir()
    # Not syspath_prepend: its undoing would leave the changed path, without any library, to the tests that follow.
    others = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *others])
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:  # other tests have imported it
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    assert importlib.util.find_spec("vllm") is not None  # a namespace: any folder is one
    assert not kinds.is_installed("vllm")


def test_a_server_that_names_its_model_is_there(serve):
    check(asked(serve(200, json.dumps({"data": [{"id": "m"}]}))))


def test_a_server_that_is_not_there_is_named(serve, monkeypatch):
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port, and connections are refused
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        there = serve(200, json.dumps({"data": [{"id": "m"}]}))
        error = refusal(asked(there, dead))
    assert error.where == "rollout.server.addresses"
    assert error.what.startswith(f"{dead} cannot be asked: ConnectError")
    assert "rlft serve-engine" in error.fix
    absent = serve(404, "")
    assert refusal(asked(absent)).what.startswith(f"{absent} cannot be asked: HTTPStatusError")
    monkeypatch.setattr(vllm, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(asked(address)).what.startswith(f"{address} cannot be asked: ReadTimeout")


def test_a_proxy_is_not_asked(serve, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    check(asked(serve(200, json.dumps({"data": [{"id": "m"}]}))))


def test_an_engine_of_ones_own_is_asked_for_what_it_can_do(monkeypatch):
    monkeypatch.setitem(ENGINES, "parrot", Parrot)
    engine = ["rollout.engine=parrot", "rollout.engine_kwargs={times: 3}"]
    config = load_config(TINY, engine)
    assert config.rollout.context_length(100) == 100
    made = config.rollout.kind.on("cpu").create(config.rollout.engine_settings(), 7)
    [said] = made.generate([[5, 6]], Sampling(1.0, 8), [0])
    assert said.token_ids.tolist() == [6, 6, 6]
    with pytest.raises(EngineError, match="other weights"):  # it belongs to one policy, so a probe must not have it
        run_probe(config, 5)
    for wrong, told in (
        ("rollout.temperature=0.4", "parrot samples at 0.5 to 1.5"),
        ("policy={model: x, lora: {rank: 4}}", "parrot samples from no adapter"),
        ("controls=[{model: y}]", "sample the policy's own model alone"),
        ("rollout.engine_kwargs={often: 3}", r"engine_kwargs\.often: .*; the settings of parrot are: times"),
    ):
        with pytest.raises(ConfigError, match=told):
            load_config(TINY, [*engine, wrong])
    monkeypatch.setattr(machine, "why_no_gpu", lambda: "there is none")
    monkeypatch.setattr(Parrot, "needs_gpu", True)
    monkeypatch.setattr(Parrot, "library", "no_such_library")
    assert {error.what for error in find_problems(config, Path("/nowhere"))} == {
        "no_such_library is not installed",
        "there is no GPU: there is none",
    }


def test_what_an_engine_is_made_of_is_imported_without_policies():
    # A config looks for engines, and policies are made by configs: a file of the room that imports the base would
    # otherwise import the config that imports it.
    program = "import rlft.engines.base, sys; print([name for name in ('torch', 'rlft.models') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"

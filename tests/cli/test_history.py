"""`rlft history`, `rollback`, `approve` and `reject` as a person gives them, on the MLflow of a home."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cli import app as cli
from mlops.home.folder import Home
from mlops.registry.client import RegistryClient
from mlops.registry.decisions import decided_with
from rlft.reporting import terminal
from tests.mlflow_stores import new_store
from tests.mlops.home.making import finish
from tests.mlops.registry.small_policy import SmallRegistry


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder, whose `.rlft` is a home with an MLflow in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///never-used.db")
    monkeypatch.delenv("RLFT_HOME", raising=False)
    monkeypatch.setattr(terminal.console, "_width", 100)
    monkeypatch.setattr(terminal.errors, "_width", 200)
    (tmp_path / ".rlft").mkdir()
    return tmp_path / ".rlft"


@pytest.fixture
def registry(home):
    found = SmallRegistry(home)
    finish(Home(home))
    for _ in range(2):
        found.register()
    return found


def rlft(*arguments):
    result = CliRunner().invoke(cli.make_app(), list(map(str, arguments)))
    assert "Traceback" not in result.output
    return result


def test_a_rollback_and_its_history(registry, home):
    done = rlft("rollback", "models:/small", "--reason", "it [red]is\nrude")
    assert done.exit_code == 0, done.output
    assert "version 1 of small is champion again, in the place of version 2" in done.output
    assert registry.champion() == "1"
    told = rlft("history", "small")
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("version")] == [
        "version 1",
        "version 2",
        "version 1",
    ]
    assert any(line.startswith("  rolled back by ") for line in lines)
    assert "    it [red]is rude" in lines
    assert lines[-2] == "--full shows what each decision has found"
    assert lines[-1] == "small: version 1 is champion"
    found = json.loads(rlft("history", "small", "--json").output)
    assert [each["version"] for each in found["history"]] == ["1", "2", "1"]
    assert not (home.parent / "never-used.db").exists()


def test_a_version_that_waits_is_approved_or_rejected(registry, home):
    registry.client.set_registered_model_tag("small", "mlflow.rlft.look.gate.asked", "3/20/0.15")
    tags = registry.client.get_model_version("small", "2").tags
    decided = decided_with("2", tags["rlft.weights_hash"], "mlflow.rlft.look.gate.asked")
    for _ in range(2):
        registry.register(tags=decided, approval=True)
    waits = " ".join(rlft("history", "small").output.split())
    for command in ("approve", "reject"):
        assert f"`rlft {command} small 4 --reason TEXT`" in waits
    no = rlft("reject", "small", "3", "--reason", "it is rude", "--json")
    assert (no.exit_code, json.loads(no.output)["verdict"]) == (0, "rejected")
    assert rlft("approve", "small", "3").exit_code == 6
    yes = rlft("approve", "models:/small", "4")
    assert yes.exit_code == 0, yes.output
    assert yes.output.startswith("version 4 of small is champion, in the place of version 2\nnoted: ")
    assert registry.champion() == "4"
    assert "passes: base" not in rlft("history", "small").output
    assert rlft("history", "small", "--full").output.count("passes: base") == 3  # one in each decision
    again = rlft("approve", "small", "4", "--json")
    assert again.exit_code == 6
    assert rlft("approve", "small", "9").exit_code == 2
    assert rlft("reject", "small", "4", "--reason", "").exit_code == 2


def test_refusals_have_an_exit_code_of_their_own(registry):
    assert rlft("rollback", "small", "--reason", "r", "--to", "2").exit_code == 6
    assert rlft("rollback", "small", "--reason", "r", "--to", "x").exit_code == 2
    assert rlft("rollback", "small", "--reason", " ").exit_code == 2
    secret = rlft("rollback", "small", "--reason", "the key ghp_" + "a1B2" * 9)
    assert (secret.exit_code, "looks like a secret" in secret.output) == (2, True)
    assert "ghp_" not in secret.output
    unknown = rlft("history", "smal")
    assert (unknown.exit_code, "there are: small" in unknown.output) == (2, True)
    for named in ("small@champion", "models:/small/2"):
        assert rlft("history", named).exit_code == 2
    assert registry.champion() == "2"


def test_another_registry_by_its_address(home, registry, tmp_path):
    found = rlft("history", "small", "--tracking-uri", registry.client.tracking_uri, "--json")
    assert json.loads(found.output)["champion"] == "2"
    away = rlft("history", "small", "--tracking-uri", "http://127.0.0.1:9")
    assert (away.exit_code, "did not answer" in away.output) == (5, True)
    both = rlft("history", "small", "--tracking-uri", "http://127.0.0.1:9", "--stack", "x")
    assert both.exit_code == 2
    named = rlft("history", "small", "--tracking-uri", "http://u:hunter2secret@127.0.0.1:9")
    assert (named.exit_code, "hunter2secret" in named.output) == (2, False)


def test_a_home_without_a_registry(home):
    result = rlft("history", "small")
    assert (result.exit_code, "nothing has been registered yet" in result.output) == (2, True)
    assert not (home / "mlflow.db").exists()


def test_a_model_without_a_champion(home):
    client = RegistryClient(new_store(home))
    finish(Home(home))
    client.create_registered_model("empty")
    assert rlft("history", "empty").output.splitlines()[-1] == "empty: there is no champion"
    assert rlft("rollback", "empty", "--reason", "r").exit_code == 6


@pytest.mark.slow
def test_a_version_that_failed_its_gate_leads_on(home):
    registry = SmallRegistry(home)
    finish(Home(home))
    for _ in range(12):
        registry.register(promote=False)
    lines = rlft("history", "small").output.splitlines()
    assert lines[:2] == ["version 12 was not promoted", "  fails: base"]
    assert lines[-2:] == ["2 older versions were not promoted either (--json lists all)", "small: there is no champion"]
    assert len(json.loads(rlft("history", "small", "--json").output)["not_promoted"]) == 12
    assert rlft("approve", "small", "1").exit_code == 6

"""What the doctor says of this machine is what a run meets."""

import json
import platform
import re

import pytest
from typer.testing import CliRunner

from cli import doctor
from cli.app import make_app
from cli.doctor import _device, _packages, _sandbox, check_home
from mlops.home.folder import PROJECT, Home
from rlft.errors import EnvironmentSetupError
from rlft.sandbox import create
from tests.mlops.home.making import finish


def test_a_sandbox_that_environments_could_not_use_is_not_called_one(monkeypatch):
    def refuses():
        raise EnvironmentSetupError("user namespaces are forbidden", where="sandbox", fix="allow them")

    monkeypatch.setattr(create, "Bubblewrap", refuses)
    found = _sandbox()
    assert found.what == "user namespaces are forbidden: environments that run a model's code will not start"
    assert found.fix.startswith("allow them; or write sandbox: none")


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_is_found_where_environments_find_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _sandbox().what.startswith("bubblewrap")


def test_the_way_out_of_a_wrong_version_does_something_after_make_setup(monkeypatch):
    # `make setup` says that nothing is to be done: nothing that it was made from is newer. -W takes base.txt for new.
    found = {"setuptools": "65.5.0"}
    monkeypatch.setattr(doctor, "version", lambda name: found.get(name) or _pinned(name))
    [finding] = list(_packages())
    assert finding.what == f"setuptools is 65.5.0, tested with {_pinned('setuptools')}"
    assert finding.fix == "make -W requirements/base.txt setup"
    assert re.search(r"^\$\(BASE\):.* requirements/base.txt ", (PROJECT / "Makefile").read_text(), re.MULTILINE)


def test_an_override_does_not_undo_a_pin():
    # uv puts an override in the place of every requirement of that name, base.txt's own among them.
    for line in (PROJECT / "requirements" / "overrides.txt").read_text().splitlines():
        name = re.match(r"[\w.-]+", line)
        if name and "sys_platform == 'never'" not in line:
            assert line == f"{name[0]}=={_pinned(name[0])}"


def _pinned(name: str) -> str:
    [version] = re.findall(
        rf"^{re.escape(name)}==(\S+)", (PROJECT / "requirements" / "base.txt").read_text(), re.MULTILINE
    )
    return version


def test_a_machine_that_can_have_no_gpu_is_told_so_without_torch(monkeypatch):
    monkeypatch.setattr(doctor, "why_no_gpu", lambda: "torch is built for CPUs alone")
    assert _device().what.endswith("no GPU: torch is built for CPUs alone")


@pytest.fixture
def home(tmp_path) -> Home:
    finish(home := Home(tmp_path))
    return home


def test_a_home_without_its_database_is_broken_and_one_without_runs_is_not(home, tmp_path):
    assert check_home(Home(tmp_path / "none")).state == "ok"
    home.databases[0].unlink()
    found = check_home(home)
    assert (found.state, "zenml.db is gone" in found.what) == ("broken", True)


@pytest.mark.slow
def test_as_json_it_prints_what_the_table_shows_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    done = CliRunner().invoke(make_app(), ["doctor", "--verify", "--json"])
    said = json.loads(done.stdout)
    assert {"state": "ok", "what": f"Python {platform.python_version()}", "fix": ""} in said["findings"]
    assert done.exit_code == int(any(each["state"] == "broken" for each in said["findings"]))
    assert said["verified"] == {"artifacts": 0, "damages": [], "others": [], "problems": []}

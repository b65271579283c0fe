"""What the doctor says of this machine is what a run meets."""

import re

import pytest

from mlops.doctor import machine
from mlops.doctor.machine import _device, _packages, _sandbox, _threads
from mlops.home.folder import PROJECT
from rlft.errors import EnvironmentSetupError
from rlft.estimation.busy import said_of
from rlft.sandbox import create


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
    monkeypatch.setattr(machine, "version", lambda name: found.get(name) or _pinned(name))
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
    monkeypatch.setattr(machine, "why_no_gpu", lambda: "torch is built for CPUs alone")
    assert _device().what.endswith("no GPU: torch is built for CPUs alone")


def test_threads_that_spin_are_warned_of_by_the_doctor_and_the_estimate(monkeypatch):
    assert said_of(1.0) == []
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert list(_threads()) == []
    assert "OMP" not in said_of(2.0)[0]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert [found.state for found in _threads()] == ["warning"]
    assert "OMP_WAIT_POLICY unset (it is ACTIVE)" in said_of(2.0)[0]

"""What the doctor says of this machine is what a run meets."""

import pytest

from pipelines.doctor import _sandbox
from rlft.errors import EnvironmentSetupError
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

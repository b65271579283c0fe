"""Fixtures that several rooms of the tests share."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.needs import closing_line, need, need_bubblewrap

# Importing a step makes ZenML open its store: each worker has one of its own, and never the user's. So it is with the
# key of the account, by which rlft knows its own runs.
_ZENML, _CONFIG = (tempfile.mkdtemp(prefix=f"rlft-tests-{kind}-") for kind in ("zenml", "config"))
for folder in (_ZENML, _CONFIG):
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
os.environ |= {"ZENML_CONFIG_PATH": _ZENML, "ZENML_ANALYTICS_OPT_IN": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
os.environ["XDG_CONFIG_HOME"] = _CONFIG
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `rlft` does: several workers share the cores

# How long an example takes says nothing on a machine that does other work. The examples are those of the run before, so
# that a test which fails does so because of a change.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _no_kept_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes what a judge told another one, which may have had a server on the same port."""
    monkeypatch.delenv("RLFT_JUDGES", raising=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real data sets: `RLFT_SHARED_DATA`, else `shared/data` beside the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("RLFT_SHARED_DATA") or default)
    need(folder.is_dir(), "real data", f"there is none at {folder}; RLFT_SHARED_DATA names its folder")
    return folder


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """For tests that run programs in the sandbox."""
    need_bubblewrap()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Close with what this machine lacks."""
    skipped = terminalreporter.stats.get("skipped", [])
    if line := closing_line(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)):
        terminalreporter.write_line(line, yellow=True)

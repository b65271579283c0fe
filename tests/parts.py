"""The suite in several parts, on machines that lack different things: what has passed in one is left out of the next.

    python -m pytest -p tests.parts --done=FILE                 # a part; FILE is read first and written at the end
    python -m pytest -p tests.parts --done=FILE --collect-only  # fails if a test ran in no part

FILE holds the ids of what passed, and of what was skipped with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

_SKIPPED = "Skipped: "


def pytest_addoption(parser: pytest.Parser) -> None:
    """The file of all parts."""
    parser.addoption("--done", type=Path, required=True, help="what earlier parts have passed, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Under xdist the workers choose, and the process that started them writes."""
    # pytest takes an existing file that stands alone among the options for a place of tests, and looks for its settings
    # in the folder that this file and the tests have in common: no setting would be read, and no id would be the same.
    if config.rootpath != config.invocation_params.dir:
        raise pytest.UsageError(f"the root of the tests is {config.rootpath}: write --done=FILE as one word")
    file: Path = config.getoption("--done").absolute()
    done = json.loads(file.read_text()) if file.is_file() else {"passed": [], "skipped": {}}
    config.pluginmanager.register(Parts(file, done, writes=not hasattr(config, "workerinput")))


class Parts:
    """What earlier parts did, and what this one adds."""

    def __init__(self, file: Path, done: dict[str, Any], *, writes: bool) -> None:
        self.file, self.writes = file, writes
        self.passed, self.skipped = set(done["passed"]), dict(done["skipped"])
        self._now: dict[str, str] = {}
        self._all: list[str] = []

    @pytest.hookimpl(trylast=True)  # after `-m` has left out what is not to run
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has passed."""
        self._all = [item.nodeid for item in items]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.passed])
        items[:] = [item for item in items if item.nodeid not in self.passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when none of its phases failed; a skipped one keeps its reason."""
        if report.failed:
            self._now[report.nodeid] = "failed"
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.nodeid] = report.longrepr[2].removeprefix(_SKIPPED)
        elif report.when == "call":
            self._now.setdefault(report.nodeid, "passed")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write it down; when nothing is run, see that nothing is missing."""
        self.passed |= {test for test, outcome in self._now.items() if outcome == "passed"}
        self.skipped = {test: reason for test, reason in sorted(self.skipped.items()) if test not in self.passed}
        if session.config.option.collectonly:
            if self._missing():
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
        elif self.writes:
            content = {"passed": sorted(self.passed), "skipped": self.skipped}
            self.file.write_text(json.dumps(content, indent=1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what became of all tests together."""
        if not terminalreporter.config.option.collectonly:
            return
        missing, skipped = self._missing(), [test for test in self._all if test in self.skipped]
        for test in skipped:
            terminalreporter.write_line(f"skipped in every part: {test}: {self.skipped[test]}")
        count = len(self._all)
        if missing:
            terminalreporter.write_line(
                f"{len(missing)} of {count} tests ran in no part: {', '.join(missing)}", red=True
            )
        elif skipped:
            passed = count - len(skipped)
            terminalreporter.write_line(f"{passed} of {count} tests passed in one of the parts, the others are above")
        else:
            terminalreporter.write_line(f"all {count} tests passed in one of the parts")

    def _missing(self) -> list[str]:
        return [test for test in self._all if test not in self.passed and test not in self.skipped]

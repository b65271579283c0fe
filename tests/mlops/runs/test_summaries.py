"""What came of a run that was cut short and resumed is what came of its newest attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mlops.home.folder import Home
from mlops.runs.shared import stored_summary
from mlops.summary.file import keep_summary
from mlops.summary.summary import Summary

SECOND, FIRST = (SimpleNamespace(id=name, config=SimpleNamespace(parameters={})) for name in ("second", "first"))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setattr("mlops.runs.shared.attempts_of", lambda run: [SECOND, FIRST])
    for attempt in (FIRST, SECOND):
        attempt.run_metadata = {}
    return Home(tmp_path)


def keep(home: Home, attempt: Any, status: Any) -> None:
    keep_summary(home, Summary(status=status, pipeline_run_id=attempt.id))


@pytest.mark.parametrize("asked", [FIRST, SECOND])
def test_the_newest_attempt_says_what_came_of_a_run(home, asked):
    keep(home, FIRST, "failed")
    keep(home, SECOND, "improved")
    assert stored_summary(home, asked).status == "improved"


def test_where_the_newest_has_left_nothing_it_is_the_one_before(home):
    keep(home, FIRST, "failed")
    assert stored_summary(home, SECOND).status == "failed"
    assert stored_summary(Home(home.root / "other"), SECOND) is None

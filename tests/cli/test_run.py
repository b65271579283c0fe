"""cli.run: which name a run begins under. With real runs: tests/e2e/test_at_once.py."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from zenml.exceptions import EntityExistsError
from zenml.zen_stores.sql_zen_store import SqlZenStore

from cli.run import begin_free
from mlops.runs.labels import Labels


def begun(taken, labels, *, is_given):
    """The names that are tried, of which ZenML has the `taken` ones, as it says itself."""
    tried = []

    def begin(labels):
        tried.append(labels.name)
        if labels.name in taken:
            raise EntityExistsError(SqlZenStore._get_duplicate_run_name_error_message(cast(Any, None), labels.name))

    begin_free(begin, labels, is_given=is_given)
    return tried


def test_a_name_that_another_machine_has_just_taken_gets_the_time_of_day():
    assert begun([], Labels(name="m-2026-11-26"), is_given=False) == ["m-2026-11-26"]
    first, again = begun(["m-2026-11-26"], Labels(name="m-2026-11-26"), is_given=False)
    assert first == "m-2026-11-26"
    assert re.fullmatch(r"m-2026-11-26-\d{6}", again)
    with pytest.raises(EntityExistsError):
        begun(["mine"], Labels(name="mine"), is_given=True)


def test_what_else_exists_already_ends_the_run():
    calls = []

    def begin(labels):
        calls.append(labels)
        raise EntityExistsError("an artifact of m exists")

    with pytest.raises(EntityExistsError):
        begin_free(begin, Labels(name="m"), is_given=False)
    assert len(calls) == 1

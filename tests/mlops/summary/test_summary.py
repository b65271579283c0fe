import io
import json
import os

import jsonschema
import pytest
from pydantic import ValidationError
from rich.console import Console

from cli.result import show_summary
from mlops.home.folder import PROJECT
from mlops.summary.arms import difference, part_differences, status_of
from mlops.summary.file import SUMMARY_FILE, end_summary, keep_summary, read_summary, summary_since, summary_text
from mlops.summary.summary import Ledger, Summary
from rlft.types import Evaluation, EvaluationReport
from tests import summary_page


def evaluation(**per_task):
    names = {"accuracy": per_task.pop("accuracy", {}), **{f"rewards/{name}": s for name, s in per_task.items()}}
    return Evaluation({"test": EvaluationReport("test", "p", 1, {}, names)})


# `cite` applied to tasks a and b before, to b and c after: only b has both
BEFORE = evaluation(accuracy={"a": 0.0, "b": 0.0, "c": 1.0}, cite={"a": 1.0, "b": 0.25})
AFTER = evaluation(accuracy={"a": 1.0, "b": 0.0, "c": 1.0}, cite={"b": 0.75, "c": 0.0})


def test_before_after_and_change_are_over_the_same_tasks():
    found = difference(AFTER, BEFORE, "accuracy")
    assert found is not None
    assert (found.before, found.after, found.tasks) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 3)
    assert found.mean == pytest.approx(1 / 3)
    parts = part_differences(AFTER, BEFORE)
    cite = parts["rewards/cite"]
    assert cite is not None
    assert (cite.before, cite.after, cite.mean, cite.tasks) == (0.25, 0.75, 0.5, 1)


def test_the_table_of_parts_adds_up():
    parts = part_differences(AFTER, BEFORE)
    differences = {**parts, "rewards/other": parts["rewards/cite"]}
    console = Console(file=io.StringIO(), width=120)
    show_summary(Summary(status="not_improved", differences=differences), console, where=[])
    (row,) = [line for line in console.file.getvalue().splitlines() if "cite" in line]
    assert [word for word in row.split() if word[0] in "0+"][:3] == ["0.250", "0.750", "+0.500"]


def test_what_could_not_be_compared_is_no_result():
    # as when a judge was down for the whole evaluation of one of them
    nothing = difference(evaluation(accuracy={}), BEFORE, "accuracy")
    assert nothing is None
    assert status_of(nothing) == "failed"
    found = difference(AFTER, BEFORE, "accuracy")
    assert found is not None
    above = {"ci_low": 0.1, "ci_low_errors": 0.1}
    assert status_of(found.model_copy(update=above)) == "improved"
    assert status_of(found.model_copy(update=above | {"ci_low": 0.0})) == "not_improved"
    assert status_of(found.model_copy(update=above | {"ci_low_errors": -0.1})) == "not_improved"
    assert status_of(found.model_copy(update=above | {"ci_low_errors": None})) == "improved"  # of an earlier version


def test_every_key_is_there_and_null_where_nothing_was_measured():
    written = json.loads(summary_text(Summary(status="failed")))
    assert set(written) == set(Summary.model_fields)
    assert (written["difference"], written["error"], written["base"]) == (None, None, {})
    jsonschema.validate(written, Summary.model_json_schema(mode="serialization"))


def test_what_does_not_fit_is_refused_when_it_is_written():
    summary = Summary(status="running")
    with pytest.raises(ValidationError):
        summary.status = "done"  # type: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="best_rounds"):
        summary.best_rounds = 3  # type: ignore[reportAttributeAccessIssue]


def test_a_summary_with_keys_of_another_version_is_read(tmp_path):
    (tmp_path / SUMMARY_FILE).write_text(
        '{"format": 2, "status": "improved", "gpus": 8, "ledger": {"sampled": 3, "lost": 1}}'
    )
    found = read_summary(tmp_path)
    assert found is not None
    assert (found.status, found.ledger) == ("improved", Ledger(sampled=3))


def test_the_page_is_made_from_the_fields():
    text = (PROJECT / "docs/guide/summary.md").read_text()
    assert text == summary_page.page(), "python -m tests.summary_page > docs/guide/summary.md"


def test_a_summary_that_has_ended_stays_as_it_is(tmp_path):
    keep_summary(tmp_path, Summary(status="improved"))
    end_summary(tmp_path, "the process was killed", 1.0)
    found = read_summary(tmp_path)
    assert found is not None
    assert (found.status, found.error) == ("improved", None)


def test_the_summary_of_a_run_that_begins_in_the_tick_of_its_command_is_found(tmp_path):
    # a file's time is that of the kernel's last tick (4 ms at 250 Hz), so it may lie before the command's beginning
    keep_summary(tmp_path, own := Summary(status="running", pipeline_run_id="a"))
    os.utime(tmp_path / SUMMARY_FILE, (1000.0, 1000.0))
    assert summary_since(tmp_path, 1000.004) == own
    assert summary_since(tmp_path, 1001.0) is None

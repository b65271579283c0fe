"""The summary of a replay comes back from its home; one that a newer rlft has written is refused."""

from __future__ import annotations

import json

import pytest

from mlops.summary.file import SUMMARY_FILE, read_result
from mlops.summary.replays import RetrainSummary
from rlft.errors import FormatVersionError
from rlft.types import Judging

SUMMARY = RetrainSummary("retrain", "again", "first", "source-id", pipeline_run_id="own-id", best_round=2)


def test_it_comes_back_and_a_newer_one_is_refused(tmp_path):
    assert read_result(tmp_path) is None
    (file := tmp_path / SUMMARY_FILE).write_text(SUMMARY.as_text())
    found = read_result(tmp_path)
    assert found is not None
    assert (found["kind"], found["source"], found["best_round"], found["format"]) == ("retrain", "first", 2, 1)
    file.write_text(json.dumps({**found, "format": 2}))
    with pytest.raises(FormatVersionError, match="the summary of a replay"):
        read_result(tmp_path)


def test_what_judges_were_asked_adds_up_within_a_stage():
    summary = RetrainSummary("retrain", "again", "first", "source-id")
    summary.note_judging("rounds", None)
    assert summary.judges == {}
    summary.note_judging("rounds", Judging(calls=2, seconds=0.5))
    summary.note_judging("rounds", Judging(calls=1, cached=4, seconds=0.25))
    assert (summary.judges["rounds"]["calls"], summary.judges["rounds"]["seconds"]) == (3, 0.75)
    summary.note_judging("audit", Judging(calls=5))
    assert json.loads(summary.as_text())["judges"]["audit"]["calls"] == 5

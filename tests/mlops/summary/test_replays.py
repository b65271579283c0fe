"""The summary of a replay comes back from its home; one that a newer rlft has written is refused."""

from __future__ import annotations

import json

import pytest

from mlops.home.folder import Home
from mlops.summary.replays import RetrainSummary, keep_replay, read_replay, replay_file
from rlft.errors import FormatVersionError
from rlft.types import Judging

SUMMARY = RetrainSummary("retrain", "again", "first", "source-id", pipeline_run_id="own-id", best_round=2)


def test_it_comes_back_and_a_newer_one_is_refused(tmp_path):
    home = Home(tmp_path)
    (tmp_path / "runs").mkdir()
    assert read_replay(home, "own-id") is None
    keep_replay(home, SUMMARY)
    found = read_replay(home, "own-id")
    assert found is not None
    assert (found["kind"], found["source"], found["best_round"], found["format"]) == ("retrain", "first", 2, 1)
    file = replay_file(home, "own-id")
    file.write_text(json.dumps({**found, "format": 2}))
    with pytest.raises(FormatVersionError, match="made by a newer rlft: the summary of a replay"):
        read_replay(home, "own-id")


def test_what_judges_were_asked_adds_up_within_a_stage():
    summary = RetrainSummary("retrain", "again", "first", "source-id")
    summary.note_judging("rounds", None)
    assert summary.judges == {}
    summary.note_judging("rounds", Judging(calls=2, money=0.5))
    summary.note_judging("rounds", Judging(calls=1, cached=4, money=0.25))
    assert (summary.judges["rounds"]["calls"], summary.judges["rounds"]["money"]) == (3, 0.75)
    summary.note_judging("canaries", Judging(calls=5))
    assert json.loads(summary.as_text())["judges"]["canaries"]["calls"] == 5

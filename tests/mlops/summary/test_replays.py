"""The summary of a replay comes back from its home; one that a newer rlft has written is refused."""

from __future__ import annotations

import json

import pytest

from mlops.home.folder import Home
from mlops.summary.replays import RetrainSummary, keep_replay, read_replay, replay_file
from rlft.errors import FormatVersionError

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

"""Artifacts that a newer rlft has stored are refused with their place, and older ones are read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from materializers.report import ReportMaterializer
from materializers.tables import WARM, RewardsMaterializer
from rlft import storage
from rlft.errors import FormatVersionError
from rlft.types import Rewards, TrainReport
from tests.factories import make_scored

REPORT = TrainReport(3, {"kl": 0.5}, {"r": "trained"}, 2, 1.5, None)


@pytest.fixture
def made(local_store, tmp_path):
    """Makes a materializer at a place in the store."""

    def make(kind, name):
        uri = f"{local_store.path}/{name}"
        local_store.makedirs(uri)
        return kind(uri=uri, artifact_store=local_store)

    return make


def test_a_report_says_its_form_and_one_without_is_read(made, noted):
    report = made(ReportMaterializer, "report")
    report.save(REPORT)
    file = Path(report.uri) / "report.json"
    stored = json.loads(file.read_text())
    assert stored.pop("format") == 1
    noted.clear()
    file.write_text(json.dumps(stored))
    assert report.load(TrainReport) == REPORT
    file.write_text(json.dumps({**stored, "format": 2}))
    with pytest.raises(FormatVersionError, match=r"report/report\.json: made by a newer rlft: a report") as caught:
        report.load(TrainReport)
    assert caught.value.where == str(file)


def test_the_form_of_a_report_is_no_part_of_its_hash(made):
    report = made(ReportMaterializer, "report")
    content = {key: value for key, value in dataclasses.asdict(REPORT).items() if key not in REPORT.passing}
    said = json.dumps(content, sort_keys=True).encode()
    assert report.compute_content_hash(REPORT) == hashlib.sha256(said).hexdigest()


def test_a_table_of_a_newer_rlft(made, monkeypatch):
    monkeypatch.setattr("rlft.storage.formats.REWARDS", storage.formats.Format("a table of rewards", newest=5))
    rewards = made(RewardsMaterializer, "rewards")
    rewards.save(make_scored({"a": [1.0]})[1])
    monkeypatch.undo()
    WARM._objects.clear()
    with pytest.raises(FormatVersionError, match=r"rewards/rewards\.parquet: made by a newer rlft: a table of rewards"):
        rewards.load(Rewards)

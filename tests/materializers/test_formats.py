"""Artifacts that another rlft has stored are refused with their place."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from materializers.report import ReportMaterializer
from materializers.tables import WARM, RewardsMaterializer
from rlft.errors import FormatVersionError
from rlft.types import Rewards, TrainReport, storage
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


def test_a_report_of_another_form_is_refused(made, noted):
    report = made(ReportMaterializer, "report")
    report.save(REPORT)
    file = Path(report.uri) / "report.json"
    stored = json.loads(file.read_text())
    assert stored["format"] == 1
    noted.clear()
    file.write_text(json.dumps({**stored, "format": 2}))
    with pytest.raises(FormatVersionError) as caught:
        report.load(TrainReport)
    assert caught.value.where == str(file)


def test_the_form_of_a_report_is_no_part_of_its_hash(made):
    report = made(ReportMaterializer, "report")
    content = {key: value for key, value in dataclasses.asdict(REPORT).items() if key not in REPORT.passing}
    said = json.dumps(content, sort_keys=True).encode()
    assert report.compute_content_hash(REPORT) == hashlib.sha256(said).hexdigest()


def test_a_table_of_another_rlft(made, monkeypatch):
    monkeypatch.setattr("rlft.types.storage.formats.REWARDS", storage.formats.Format("a table of rewards", 6))
    rewards = made(RewardsMaterializer, "rewards")
    rewards.save(make_scored({"a": [1.0]})[1])
    monkeypatch.undo()
    WARM.clear()
    with pytest.raises(FormatVersionError) as caught:
        rewards.load(Rewards)
    assert caught.value.where.endswith("rewards/rewards.parquet")

"""Stored files that have changed: nothing is trained on or registered, and a run makes them again byte for byte."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mlops.home.folder import Home as Settled
from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def flip(file: Path) -> None:
    """Change 64 bytes of weights: the file still loads."""
    content = bytearray(file.read_bytes())
    content[-4064:-4000] = bytes(byte ^ 0xFF for byte in content[-4064:-4000])
    file.write_bytes(content)


def versions(home: Home) -> list[list[str]]:
    """The registered versions with the hashes that they say, and those of the files that they have."""
    return home.query("""
from pathlib import Path
from mlflow.artifacts import download_artifacts
from rlft.models.origin import hash_weights
found = []
for version in sorted(mlflow_client.search_model_versions("name = 'tiny'"), key=lambda v: int(v.version)):
    files = mlflow_client.get_model_version_download_uri("tiny", version.version)
    folder = download_artifacts(artifact_uri=f"{files}/artifacts/policy/model", tracking_uri=uri)
    found.append([version.version, version.tags["rlft.weights_hash"], hash_weights(Path(folder))])
print(json.dumps(found))
""")


def test_weights_that_change_before_they_are_registered_are_trained_again(finished, tmp_path):
    whole_home, whole = finished
    home = whole_home.copy(tmp_path / "copy")
    before = versions(home)  # others may have registered some
    best = f"train_grpo_r{whole.summary['best_round'] - 1:03d}"
    (weights,) = (home.folder / ".rlft" / "zenml" / "local_stores").glob(
        f"*/{best}/policy/*/*/policy/model/*.safetensors"
    )
    flip(weights)

    verified = home.rlft("doctor", "--verify")
    assert verified.code == 1
    assert best in verified.output
    # The next run takes everything from the cache of the first one, up to the version that it would register.
    refused = home.rlft("run", str(TINY), "--name", "next")
    assert refused.code == 1, refused.output
    said = " ".join(refused.summary["error"].split())
    assert str(weights) in said
    assert f"`rlft resume next` makes it again ({best})" in said
    assert "Traceback" not in refused.output
    assert versions(home) == before
    again = home.rlft("resume", "next")
    assert again.code == 0, again.output
    expected = whole_home.steps(whole.summary["pipeline_run_id"])
    found = home.steps(again.summary["pipeline_run_id"])
    assert found[best]["status"] == "completed"
    assert found[best]["outputs"]["policy"] == expected[best]["outputs"]["policy"]  # optimizer and tokenizer too
    sampled = [step["status"] for name, step in found.items() if name.startswith("generate_rollouts")]
    assert set(sampled) <= {"skipped", "cached"}  # nothing is sampled again
    *kept, second = versions(home)
    assert kept == before
    assert kept[0][1] == kept[0][2] == second[1] == second[2]
    assert again.summary["final"] == whole.summary["final"]
    verified = home.rlft("doctor", "--verify")
    assert "1 files are damaged" in verified.output  # those of the first run, which has not been resumed


def test_a_policy_that_was_cut_short_is_trained_again_before_its_run_goes_on(make_home):
    home = make_home("cut")
    killed = home.rlft(
        "run", str(TINY), "--set", "controls=[]", "--name", "cut", kill_at="rlft.training.job:train_round:3"
    )
    assert killed.code == -9, killed.output
    (weights,) = (home.folder / ".rlft" / "zenml" / "local_stores").glob(
        "*/train_grpo_r001/policy/*/*/policy/model/*.safetensors"
    )
    os.truncate(weights, weights.stat().st_size - 100)
    again = home.rlft("resume", "cut")
    assert again.code == 0, again.output
    assert "were stored; train_grpo_r001 makes it again" in " ".join(again.output.split())
    steps = home.steps(again.summary["pipeline_run_id"])
    # The policy that round 1 starts from has lost its weights to `policy.keep`, so it is trained again, too.
    assert [steps[f"train_grpo_r{number:03d}"]["status"] for number in range(2)] == ["completed", "completed"]


def test_files_that_do_not_parse_end_in_a_sentence(finished, tmp_path):
    """`rlft show` and a run that takes what it can from the cache, with one file of each kind cut off."""
    whole_home, whole = finished
    home = whole_home.copy(tmp_path / "cut")
    store = home.folder / ".rlft" / "zenml" / "local_stores"
    name = home.query(f"print(json.dumps(client.get_pipeline_run('{whole.summary['pipeline_run_id']}').name))")
    for pattern, command in (
        ("*/generate_rollouts_r001/**/rollouts.parquet", "generate_rollouts_r001"),
        ("*/score_rewards_r000/**/rewards.parquet", "score_rewards_r000"),
        ("*/train_grpo_r002/**/report.json", "train_grpo_r002"),
    ):
        (file,) = store.glob(pattern)
        file.write_bytes(file.read_bytes()[:-9])
        shown = home.rlft("show", name, command[-1])
        assert shown.code == 1
        assert f"makes it again ({command})" in " ".join(shown.output.split())
        assert "Traceback" not in shown.output
    refused = home.rlft("run", str(TINY), "--name", "after")  # round 0 is traced, and its rewards are read for that
    assert refused.code == 1
    assert "`rlft resume after` makes it again (score_rewards_r000)" in " ".join(refused.output.split())


def test_a_home_from_elsewhere_runs_no_code_when_it_is_read(finished, tmp_path):
    """A database that names ZenML's class for pickles, and a pickle in the place of the rollouts."""
    home, ran = finished[0].copy(tmp_path), tmp_path / "ran"
    reader = {
        "module": "zenml.materializers.cloudpickle_materializer",
        "attribute": "CloudpickleMaterializer",
        "type": "internal",
    }
    with closing(sqlite3.connect(Settled(home.folder / ".rlft").databases[0])) as database, database:
        (uri,) = database.execute("SELECT uri FROM artifact_version WHERE uri LIKE '%/generate_rollouts_r000/%'")
        database.execute(
            "UPDATE artifact_version SET materializer = ?, content_hash = NULL WHERE uri = ?",
            (json.dumps(reader), *uri),
        )
    shutil.rmtree(uri[0])
    Path(uri[0]).mkdir()
    (Path(uri[0]) / "artifact.pkl").write_bytes(pickle.dumps(Opened(str(ran))))
    (Path(uri[0]) / "python_version.txt").write_text("{}")
    shown = home.rlft("show", finished[1].summary["pipeline_run_id"], "0")
    assert not ran.exists()
    assert shown.code == 1, shown.output
    assert "rollouts.parquet: this file is gone" in " ".join(shown.output.split())


class Opened:
    """What makes a file when it is unpickled."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self):
        return open, (self.file, "w")

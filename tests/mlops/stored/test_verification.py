"""Every artifact in a home is read and compared with its seal; what is damaged comes with a command."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.verify import show_verified, verify_stored
from mlops.display.terminal import Terminal
from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.stored.verification import stored_seal, verify_artifacts
from rlft.errors import DamagedError, StorageError
from rlft.seals import REMOVED, SEALED, make_seal, seal_place

TABLES = """
CREATE TABLE pipeline_run (id TEXT, name TEXT);
CREATE TABLE step_run (id TEXT, name TEXT, pipeline_run_id TEXT, created TEXT, cache_key TEXT, status TEXT,
    cache_expires_at TEXT);
CREATE TABLE step_run_output_artifact (name TEXT, step_id TEXT, artifact_id TEXT);
CREATE TABLE artifact_version (id TEXT, uri TEXT);
CREATE TABLE run_metadata (id TEXT, key TEXT, value TEXT);
CREATE TABLE run_metadata_resource (resource_id TEXT, run_metadata_id TEXT);
INSERT INTO pipeline_run VALUES ('1', 'first-resumed-1'), ('2', 'second');
INSERT INTO run_metadata VALUES ('x', 'other', '1');
"""


class Stored:
    """A home with tables of ZenML's kind, and sealed artifacts."""

    def __init__(self, root):
        self.home = Home(root)
        (root / ZENML.path).parent.mkdir(parents=True)
        with self.database() as database:
            database.executescript(TABLES)

    def database(self):
        return closing(sqlite3.connect(self.home.root / ZENML.path, isolation_level=None))

    def add(self, name, files, *, run="1", sealed=True):
        """Store an artifact as the step of this name does."""
        store = self.home.root / "zenml" / "local_stores" / "store"
        place = store / name
        for file, content in files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(content)
        with self.database() as database:
            values = (name, name, run, "09:00", f"key of {name}", "completed", None)
            database.execute("INSERT INTO step_run VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            database.execute("INSERT INTO step_run_output_artifact VALUES ('out', ?, ?)", (name, name))
            database.execute("INSERT INTO artifact_version VALUES (?, ?)", (name, str(place)))
            database.execute("INSERT INTO run_metadata_resource VALUES (?, 'x')", (name,))
            if sealed:
                seal = make_seal(str(place), files, "first", name)
                Path(seal_place(str(store), str(place))).parent.mkdir(exist_ok=True)
                Path(seal_place(str(store), str(place))).write_text(seal.text())
                database.execute("INSERT INTO run_metadata VALUES (?, 'seal', ?)", (name, json.dumps(seal.digest)))
                database.execute("INSERT INTO run_metadata_resource VALUES (?, ?)", (name, name))
        return place


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path / "home")


POLICY = {"policy/policy.json": b"{}", "policy/model/model.safetensors": b"w", "policy/optimizer.safetensors": b"o"}


def test_what_is_whole_and_what_is_not(stored, capsys):
    table = stored.add("generate_rollouts_r000", {"rollouts.parquet": b"rows"})
    policy = stored.add("train_grpo_r000", POLICY)
    stored.add("old", {"report.json": b"{}"}, sealed=False)
    found = verify_artifacts(stored.home)
    assert (found.artifacts, found.without_seal, found.damages) == (3, 1, [])
    with stored.database() as database:  # another run takes it from the cache, which is no second artifact
        database.execute("INSERT INTO step_run VALUES ('c', 'other', '2', '10:00', 'k', 'cached', NULL)")
        database.execute("INSERT INTO step_run_output_artifact VALUES ('out', 'c', 'generate_rollouts_r000')")
    (table / "rollouts.parquet").write_bytes(b"wors")
    (policy / "policy" / "optimizer.safetensors").unlink()
    found = verify_artifacts(stored.home)
    assert (found.artifacts, found.without_seal) == (3, 1)
    assert [Path(damage.where).name for damage in found.damages] == ["rollouts.parquet", "optimizer.safetensors"]
    assert [damage.step for damage in found.damages] == ["generate_rollouts_r000", "train_grpo_r000"]
    assert {damage.run for damage in found.damages} == {"first"}
    verified = verify_stored(stored.home)
    assert (verified["artifacts"], verified["without_seal"], len(verified["damages"])) == (3, 1, 2)
    show_verified(verified, Terminal(width=40))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("damaged ")
    assert "`rlft resume first` makes it again (generate_rollouts_r000)" in lines[0]
    assert lines[2:] == ["3 artifacts, of which 1 have no seal: an earlier version stored them; 2 files are damaged"]


def test_weights_that_retention_removed_are_not_missed(stored):
    policy = stored.add("train_grpo_r000", POLICY)
    (policy / "policy" / "optimizer.safetensors").unlink()
    (policy / "policy" / "model" / "model.safetensors").unlink()
    lost = verify_artifacts(stored.home).damages  # without the mark somebody else did it
    assert [(damage.what, damage.step) for damage in lost] == [("this file is gone", "train_grpo_r000")] * 2
    assert {Path(damage.where).name for damage in lost} == {"model.safetensors", "optimizer.safetensors"}
    assert "`rlft resume first` makes it again (train_grpo_r000)" in lost[0].fix
    (policy / REMOVED).touch()
    assert verify_artifacts(stored.home).damages == []
    base = stored.add("initialize_policy", {"policy/policy.json": b"", "policy/model/model.safetensors": b"w"})
    (base / "policy" / "model" / "model.safetensors").unlink()
    assert [damage.step for damage in verify_artifacts(stored.home).damages] == ["initialize_policy"]


@pytest.mark.parametrize("text", [None, "", "{}", '{"files": {}, "run": "", "step": ""}'])
def test_a_seal_that_is_gone_or_changed_is_damage(stored, text):
    place = stored.add("evaluate", {"report.json": b"{}"})
    seal = Path(seal_place(str(place.parent), str(place)))
    seal.unlink() if text is None else seal.write_text(text)
    (damage,) = verify_artifacts(stored.home).damages
    assert "seal" in damage.what
    assert damage.step == "evaluate"


def test_a_seal_without_a_witness_in_the_database_is_missed_by_its_mark(stored):
    place = stored.add("evaluate", {"report.json": b"{}"}, sealed=False)
    assert stored_seal(stored.home, place) is None
    (place / SEALED).touch()
    with pytest.raises(DamagedError, match="is gone"):
        stored_seal(stored.home, place)
    assert [damage.step for damage in verify_artifacts(stored.home).damages] == ["evaluate"]


def test_an_artifact_that_is_gone_is_damage_with_a_seal_or_without(stored):
    for name, sealed in (("a", True), ("b", False)):
        place = stored.add(name, {"report.json": b"{}"}, sealed=sealed)
        (place / "report.json").unlink()
        place.rmdir()
    assert [damage.step for damage in verify_artifacts(stored.home).damages] == ["a", "b"]


def test_what_was_made_again_is_not_checked_any_more(stored):
    place = stored.add("train", {"report.json": b"{}"})
    (place / "report.json").write_bytes(b"[]")
    with stored.database() as database:
        database.execute("UPDATE step_run SET cache_expires_at = '2000-01-01 00:00:00.000000'")
        assert len(verify_artifacts(stored.home).damages) == 1  # nothing has made it yet
        database.execute("INSERT INTO step_run VALUES ('n', 'train', '1', '11:00', 'key of train', 'completed', NULL)")
    assert verify_artifacts(stored.home).damages == []


def test_a_home_without_runs_and_one_whose_database_is_none(tmp_path):
    assert verify_artifacts(Home(tmp_path)).artifacts == 0
    (tmp_path / ZENML.path).parent.mkdir(parents=True)
    (tmp_path / ZENML.path).write_bytes(b"\0" * 4096)
    with pytest.raises(StorageError) as caught:
        verify_stored(Home(tmp_path))
    assert caught.value.where == str(tmp_path / ZENML.path)

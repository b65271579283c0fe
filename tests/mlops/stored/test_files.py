"""A round read from a home's files, and everything that is left to ZenML instead.

That both read the same is tested with real runs: tests/e2e/test_new_environment.py, tests/e2e/test_lineage.py.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.stored.artifact_table import keep_artifacts
from mlops.stored.files import read_round
from rlft import storage
from rlft.errors import DamagedError
from rlft.seals import make_seal, seal_place
from tests.factories import make_scored, make_task, make_task_set

TABLES = """
CREATE TABLE pipeline_run (id TEXT, name TEXT, created TEXT);
CREATE TABLE tag (id TEXT, name TEXT);
CREATE TABLE tag_resource (tag_id TEXT, resource_id TEXT);
CREATE TABLE step_run (id TEXT, name TEXT, pipeline_run_id TEXT);
CREATE TABLE step_run_output_artifact (name TEXT, step_id TEXT, artifact_id TEXT);
CREATE TABLE artifact_version (id TEXT, uri TEXT);
INSERT INTO pipeline_run VALUES ('aa11', 'first', '09:00'), ('bb22', 'first-resumed', '10:00'),
    ('cc44', 'first-again', '11:00'), ('ab33', 'second', '12:00');
INSERT INTO tag VALUES ('1', 'run=first'), ('2', 'run=second'), ('3', 'experiment=sums');
INSERT INTO tag_resource VALUES ('1', 'aa11'), ('1', 'bb22'), ('1', 'cc44'), ('2', 'ab33'),
    ('3', 'aa11'), ('3', 'bb22'), ('3', 'cc44'), ('3', 'ab33'), ('1', 'an artifact');
"""
ROLLOUTS, REWARDS = make_scored({"a": [1.0, 0.0], "b": [0.5]})


class Stored:
    """A home with tables of ZenML's kind, and what its steps have stored."""

    def __init__(self, root):
        self.home = Home(root)
        file = ZENML.file(Home(root))
        file.parent.mkdir(parents=True)
        self.database = sqlite3.connect(file, isolation_level=None)
        self.database.executescript(TABLES)
        self.count = 0

    def folder(self, run, step, output, uri=None):
        """Where a step of a run has put an output."""
        self.count += 1
        uri = uri or self.home.root / "zenml" / "local_stores" / "store" / f"artifact-{self.count}"
        uri.mkdir(parents=True, exist_ok=True)
        one = str(self.count)
        self.database.execute("INSERT INTO step_run VALUES (?, ?, ?)", (one, step, run))
        self.database.execute("INSERT INTO step_run_output_artifact VALUES (?, ?, ?)", (output, one, one))
        self.database.execute("INSERT INTO artifact_version VALUES (?, ?)", (one, str(uri)))
        return uri

    def rollouts(self, run, name="r001", uri=None):
        folder = self.folder(run, f"generate_rollouts_{name}", "rollouts", uri)
        pq.write_table(storage.rollouts_to_table(ROLLOUTS), folder / "rollouts.parquet")
        return folder

    def rewards(self, run, name="r001"):
        folder = self.folder(run, f"score_rewards_{name}", "rewards")
        pq.write_table(storage.rewards_to_table(REWARDS), folder / "rewards.parquet")

    def report(self, run, name="r001", fate="trained"):
        folder = self.folder(run, f"train_grpo_{name}", "train_report")
        (folder / "report.json").write_text(json.dumps({"fates": {"x": fate}, "round": 1}))


@pytest.fixture
def stored(tmp_path):
    made = Stored(tmp_path / "home")
    yield made
    made.database.close()


@pytest.mark.parametrize("run", ["second", "sec", "ab33", "ab"])
def test_a_round_is_read_by_the_name_or_id_of_its_run_or_their_beginning(stored, run):
    stored.rollouts("ab33")
    stored.rewards("ab33")
    stored.report("ab33")
    found = read_round(stored.home, run, "1")
    assert found.name == "r001"
    assert [each.rollout_id for each in found.rollouts] == [each.rollout_id for each in ROLLOUTS]
    assert [each.total for each in found.rewards] == [1.0, 0.0, 0.5]
    assert found.fates == {"x": "trained"}


def test_a_round_that_was_neither_scored_nor_trained_has_neither(stored):
    stored.rollouts("ab33", "baseline")
    found = read_round(stored.home, "second", "baseline")
    assert (found.rewards, found.fates) == (None, {})


@pytest.mark.parametrize("run", ["first", "first-resumed", "first-again"])
def test_all_attempts_at_a_run_are_looked_through_whichever_is_named(stored, run):
    stored.rollouts("aa11")
    stored.rewards("bb22")
    stored.report("cc44")
    found = read_round(stored.home, run, "r001")
    assert [each.total for each in found.rewards] == [1.0, 0.0, 0.5]
    assert found.fates == {"x": "trained"}


def test_the_attempt_that_is_named_goes_first_and_then_the_newest(stored):
    stored.report("aa11", fate="filtered")
    stored.rollouts("bb22")
    stored.report("bb22", fate="errored")
    stored.report("cc44", fate="trained")
    fates = [read_round(stored.home, run, "r001").fates["x"] for run in ("first", "first-resumed", "first-again")]
    assert fates == ["filtered", "errored", "trained"]
    stored.rollouts("aa11", "r002")
    stored.report("bb22", "r002", fate="errored")
    stored.report("cc44", "r002", fate="trained")
    assert read_round(stored.home, "first", "r002").fates == {"x": "trained"}


@pytest.mark.parametrize("run", ["fir", "a", "nobody", "s%", "secon_"])
def test_a_run_that_is_not_clear_is_left_to_zenml(stored, run):
    stored.rollouts("aa11")
    stored.rollouts("ab33")
    assert read_round(stored.home, run, "r001") is None


def test_what_is_not_there_or_elsewhere_is_left_to_zenml(stored, tmp_path):
    assert read_round(stored.home, "second", "r001") is None  # no such round
    stored.rollouts("ab33", "r002").joinpath("rollouts.parquet").unlink()
    assert read_round(stored.home, "second", "r002") is None
    stored.rollouts("ab33", "r003", tmp_path / "elsewhere")
    assert read_round(stored.home, "second", "r003") is None
    stored.rollouts("ab33", "r004")
    stored.rollouts("ab33", "r004")  # tried twice
    assert read_round(stored.home, "second", "r004") is None


def test_a_database_that_is_not_there_or_of_another_version_is_left_to_zenml(stored, tmp_path):
    assert read_round(Home(tmp_path / "none"), "second", "r001") is None
    stored.rollouts("ab33")
    stored.database.execute("ALTER TABLE artifact_version RENAME COLUMN uri TO place")
    assert read_round(stored.home, "second", "r001") is None
    assert not (tmp_path / "none").exists()


def test_a_run_from_before_runs_had_tags_is_left_to_zenml(stored):
    stored.rollouts("ab33")
    stored.database.execute("DELETE FROM tag_resource WHERE tag_id = '2'")
    assert read_round(stored.home, "second", "r001") is None


@pytest.mark.parametrize("name", ["a?b", "a%62", "a#b"])
def test_the_path_of_a_home_is_a_path_and_no_address(tmp_path, name):
    assert read_round(Home(tmp_path / name / "home"), "second", "r001") is None
    assert list(tmp_path.iterdir()) == []
    stored = Stored(tmp_path / name / "home")
    stored.rollouts("ab33")
    assert read_round(stored.home, "second", "r001") is not None
    stored.database.close()


def seal(folder):
    """Seal a folder of the store as a materializer does."""
    place = Path(seal_place(str(folder.parent), str(folder)))
    place.parent.mkdir(exist_ok=True)
    place.write_text(make_seal(str(folder), {file.name: file for file in folder.iterdir()}, "x", "y").text())


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("name", ["rollouts.parquet", "rewards.parquet", "report.json"])
@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"{}"])
def test_a_damaged_file_is_named_with_the_command_that_makes_it_again(stored, name, content, sealed):
    stored.rollouts("ab33")
    stored.rewards("ab33")
    stored.report("ab33")
    folders = list((stored.home.root / "zenml" / "local_stores" / "store").iterdir())
    for folder in folders if sealed else []:
        seal(folder)
    assert read_round(stored.home, "second", "1").fates == {"x": "trained"}
    (file,) = [folder / name for folder in folders if (folder / name).is_file()]
    file.write_bytes(content)
    with pytest.raises(DamagedError) as caught:
        read_round(stored.home, "second", "1")
    assert caught.value.where == str(file)
    steps = {"rollouts": "generate_rollouts_r001", "rewards": "score_rewards_r001", "report": "train_grpo_r001"}
    assert (caught.value.run, caught.value.step) == ("second", steps[name.partition(".")[0]])


def test_without_zenml_s_database_a_run_s_own_table_says_where_its_rollouts_lie(stored):
    run = "aa110000-0000-0000-0000-000000000000"
    stored.database.execute("UPDATE pipeline_run SET id = ? WHERE id = 'aa11'", (run.replace("-", ""),))
    stored.rollouts(run.replace("-", ""))
    stored.rewards(run.replace("-", ""))
    keep_artifacts(stored.home, run, "first")
    keep_artifacts(stored.home, "no-such-run", "none")
    [table] = (stored.home.root / "runs").iterdir()
    steps = json.loads(table.read_text())["steps"]
    assert steps["generate_rollouts_r001"] == {"rollouts": "zenml/local_stores/store/artifact-1"}
    for damage in (lambda file: file.write_bytes(b"no database" * 99), lambda file: file.unlink()):
        damage(ZENML.file(stored.home))
        for name in ("first", run, run[:6]):
            found = read_round(stored.home, name, "1")
            assert found is not None
            assert [row.rollout_id for row in found.rollouts] == [row.rollout_id for row in ROLLOUTS]
            assert found.rewards is not None
            assert found.fates == {}
        assert read_round(stored.home, "first", "2") is None
        assert read_round(stored.home, "second", "1") is None
    (stored.home.root / "runs" / f"{run.replace('0', '9')}.artifacts.json").write_text(
        table.read_text().replace("first", "other")
    )
    assert read_round(stored.home, "aa11", "1") is None  # either could be meant


def test_the_tasks_are_read_too_and_damaged_tasks_are_left_out(stored):
    stored.rollouts("ab33")
    folder = stored.folder("ab33", "ingest_tasks", "tasks")
    tasks = make_task_set(make_task("a", split="gate"), make_task("b", split="test"))
    pq.write_table(storage.tasks_to_table(tasks), folder / "tasks.parquet")
    assert read_round(stored.home, "second", "r001").tasks == tasks.by_id()
    (folder / "tasks.parquet").write_bytes(b"x")
    assert read_round(stored.home, "second", "r001").tasks == {}

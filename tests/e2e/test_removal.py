"""Runs that share cached policies: retention leaves what another run has, and removing one leaves the others whole."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from mlflow import MlflowClient

from mlops.home.databases import ZENML
from mlops.home.folder import Home as Folder
from mlops.home.processes import claimed
from mlops.removal import removing as removal
from mlops.removal.plan import make_plan
from mlops.removal.removing import remove_runs
from mlops.runs.listed import find_listed
from mlops.runs.listing import list_runs
from mlops.stored.rollouts import load_round, open_run
from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.long]
MANY = ["--set", "training.tasks_per_round=24"]  # so that most tokens are those of the rounds
EVERY = [*MANY, "--set", "evaluation.validate_every=1", "--set", "policy.keep.last=2"]
ONCE = [*MANY, "--set", "evaluation.validate_every=3", "--set", "policy.keep.last=1"]


def folder_of(home: Home) -> Folder:
    return Folder(home.folder / ".rlft")


def policies(home: Folder) -> list[Path]:
    return sorted(home.root.glob("zenml/local_stores/*/train_grpo_*/policy/*/*/policy/model/model.safetensors"))


def listed(home: Folder, name: str):
    [found] = find_listed(list_runs(home).runs, name)
    return found


@pytest.fixture(scope="module")
def shared(make_home):
    """A home with `first`, cut short and resumed, `second` and `third`, which take its rounds from the cache.

    `third` was killed. `second` ran while `first` could be resumed.
    """
    home = make_home("removal")
    killed = home.rlft("run", str(TINY), *EVERY, "--name", "first", kill_at="rlft.training.job:train_round:3")
    assert killed.code == -9, killed.output
    before = policies(folder_of(home))
    assert len(before) == 2
    second = home.rlft("run", str(TINY), *ONCE, "--name", "second")
    assert second.code == 0, second.output
    # Its own settings keep one policy, and `first` may yet take another one of these for the best.
    assert set(before) < set(policies(folder_of(home)))
    resumed = home.rlft("resume", "first")
    assert resumed.code == 0, resumed.output
    killed = home.rlft(
        "run", str(TINY), *EVERY, "--name", "third", kill_at="steps.register_policy:register_policy_version:1"
    )
    assert killed.code == -9, killed.output
    return home


@pytest.fixture
def copied(shared, tmp_path) -> Folder:
    """A copy of the home, in which `second` has the alias, so that `first` may go."""
    home = folder_of(shared.copy(tmp_path))
    version = listed(home, "second").version
    MlflowClient(home.tracking_uri).set_registered_model_alias(*("tiny", "challenger", version[1]))
    return home


def assert_whole(home: Folder) -> None:
    """Whatever a database names is there, and whatever is there is named."""
    with closing(sqlite3.connect(home.root / ZENML.path)) as database:
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        named = {Path(uri) for (uri,) in database.execute("SELECT uri FROM artifact_version")}
        lost = database.execute(
            "SELECT count(*) FROM run_metadata_resource WHERE resource_type = 'artifact_version' "
            "AND resource_id NOT IN (SELECT id FROM artifact_version)"
        ).fetchone()[0]
    assert lost == 0
    assert [place for place in named if not place.is_dir()] == []
    [store] = [place for place in (home.root / "zenml/local_stores").iterdir() if place.name != "default_zen_store"]
    assert {place for place in store.glob("*/*/*/*") if any(place.rglob("*.*"))} == named
    with closing(sqlite3.connect(home.root / ZENML.path)) as database:
        steps = {str(UUID(key)) for (key,) in database.execute("SELECT id FROM step_run")}
    owners = {place.parent.name for place in store.glob("*/*/*/*")}
    assert owners - steps == {place.parent.name for place in named} - steps  # nothing that a kill left half written
    with closing(sqlite3.connect(home.root / "mlflow.db")) as database:
        runs = {run for (run,) in database.execute("SELECT run_uuid FROM runs")}
        for table, column in (("metrics", "run_uuid"), ("params", "run_uuid"), ("tags", "run_uuid")):
            assert {run for (run,) in database.execute(f"SELECT {column} FROM {table}")} <= runs
        sources = database.execute("SELECT value FROM trace_request_metadata WHERE key = 'mlflow.sourceRun'")
        assert {run for (run,) in sources} <= runs
        versions = database.execute("SELECT storage_location FROM model_versions").fetchall()
    assert len(versions) == 2
    for (place,) in versions:
        assert (Path(place.removeprefix("file://")) / "artifacts/policy/model/model.safetensors").is_file()
    assert {place.name for place in (home.root / "mlflow-artifacts").iterdir()} == runs | {"models"}
    assert not (home.root / "removing.json").exists()


def test_the_list_says_what_became_of_each_run(shared):
    runs = {run.name: run for run in list_runs(folder_of(shared)).runs}
    assert {name: run.status for name, run in runs.items()} == {
        "first": runs["first"].summary.status, "second": runs["second"].summary.status, "third": "killed",
    }  # fmt: skip
    assert runs["first"].status in ("improved", "not_improved")
    assert (len(runs["first"].attempts), len(runs["second"].attempts)) == (2, 1)
    assert runs["first"].aliases == ("challenger",)
    assert (runs["second"].version, runs["second"].aliases) == (("tiny", "1"), ())
    assert runs["first"].tokens > runs["second"].tokens > 0  # whose rounds came from the cache
    printed = shared.rlft("runs").output
    assert all(name in printed for name in runs)


def test_what_has_an_alias_or_can_be_resumed_stays(shared):
    before = sorted(folder_of(shared).root.rglob("*"))
    said = shared.rlft("prune", "--keep-last", "0", "--dry-run").output
    assert "first stays: tiny 2 is challenger" in said
    assert "third stays: it can be resumed" in said
    assert "1 run would be removed" in said
    assert sorted(folder_of(shared).root.rglob("*")) == before
    refused = shared.rlft("delete", "second")
    assert (refused.code, "give --yes" in refused.output) == (2, True)


@pytest.mark.parametrize("cut_at", [None, "remove_from_zenml", "remove_from_mlflow", "_remove_path"])
def test_a_removal_that_is_cut_short_anywhere_is_ended_by_the_next(copied, monkeypatch, cut_at):
    def cut(*_):
        raise KeyboardInterrupt

    plan = make_plan(copied, [listed(copied, "first")], resumable_too=False)
    assert [run.name for run in plan.runs] == ["first"]
    kept = policies(copied)
    if cut_at is not None:
        with monkeypatch.context() as patched:
            patched.setattr(removal, cut_at, cut)
            with pytest.raises(KeyboardInterrupt):
                remove_runs(copied, plan, settle=0)
        assert (copied.root / "removing.json").is_file()
        plan = make_plan(copied, [], resumable_too=False)  # as `rlft prune` alone would
    remove_runs(copied, plan, settle=0)
    assert_whole(copied)
    assert {run.name for run in list_runs(copied).runs} == {"second", "third"}
    assert policies(copied) == kept  # all of them are used by the others, through the cache
    assert load_round(open_run(copied, "second", None), "0").rewards is not None
    with closing(sqlite3.connect(copied.root / ZENML.path)) as database:
        heirs = database.execute(
            "SELECT count(*) FROM step_run WHERE name = 'train_grpo_r000' AND status = 'completed'"
        ).fetchone()
    assert heirs == (1,)  # so that a later run still finds the round in the cache


@pytest.mark.parametrize(
    "kill_at",
    [
        "mlops.removal.note:Note.write:1",
        "mlops.removal.removing:remove_from_mlflow:1",
        "os:unlink:8",
    ],
)
def test_rlft_delete_that_is_killed_anywhere_is_ended_by_the_next_prune(copied, tmp_path, kill_at):
    home = Home(tmp_path)
    killed = home.rlft("delete", "first", "--yes", kill_at=kill_at)
    assert killed.code == -9, killed.output
    again = home.rlft("delete", "first", "--yes")  # the same command, as a user would; the run may be gone by now
    assert again.code == 0 or "first" in again.output
    ended = home.rlft("prune", "--keep-last", "1000", "--yes")
    assert ended.code == 0, ended.output
    assert_whole(copied)
    assert {run.name for run in list_runs(copied).runs} == {"second", "third"}
    assert home.rlft("doctor", "--verify").code == 0


def test_a_run_that_another_process_goes_on_with_stays(copied):
    plan = make_plan(copied, [listed(copied, "first")], resumable_too=False)
    before = sorted(copied.root.rglob("*.parquet"))
    with claimed(copied, "first", None):  # as `rlft resume first` does
        [(run, reason)] = remove_runs(copied, plan, settle=0).kept
    assert (run.name, reason) == ("first", f"process {os.getpid()} has begun first or goes on with it")
    assert sorted(copied.root.rglob("*.parquet")) == before


def test_what_a_run_takes_from_the_cache_during_the_removal_stays(copied, monkeypatch):
    [file] = [file for file in policies(copied) if "train_grpo_r000" in str(file)]
    with closing(sqlite3.connect(copied.root / ZENML.path)) as database:
        (artifact,) = database.execute(
            "SELECT id FROM artifact_version WHERE uri = ?", (str(file.parents[2]),)
        ).fetchone()
        database.execute(
            "DELETE FROM step_run_output_artifact WHERE artifact_id = ? AND step_id NOT IN "
            "(SELECT id FROM step_run WHERE status = 'completed')",
            (artifact,),
        )
        database.execute("DELETE FROM step_run_input_artifact WHERE artifact_id = ?", (artifact,))
        (step,) = database.execute(
            "SELECT step_run.id FROM step_run JOIN pipeline_run ON pipeline_run.id = "
            "pipeline_run_id WHERE pipeline_run.name = 'third' LIMIT 1"
        ).fetchone()
        database.commit()
    plan = make_plan(copied, [listed(copied, "first")], resumable_too=False)
    assert file.parents[2] in plan.paths

    def take(_):
        with closing(sqlite3.connect(copied.root / ZENML.path)) as database:
            database.execute("INSERT INTO step_run_output_artifact VALUES ('policy', ?, ?)", (step, artifact))
            database.commit()

    monkeypatch.setattr(removal.time, "sleep", take)
    remove_runs(copied, plan)
    assert file.is_file()
    assert [run.name for run in list_runs(copied).runs] == ["third", "second"]


def test_a_run_goes_on_whose_rounds_came_from_one_that_was_removed(copied, tmp_path):
    home = Home(tmp_path)
    removed = home.rlft("delete", "first", "--yes")
    assert removed.code == 0, removed.output
    assert "1 run removed" in removed.output
    assert home.rlft("resume", "third").code == 0
    rest = home.rlft("delete", "second", "third", "--yes").output
    assert "third stays: tiny 3 is challenger" in rest
    assert "second" in rest
    assert "1 run removed" in rest

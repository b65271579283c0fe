"""Runs that share cached policies: retention leaves what another run has, and removing one leaves the others whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from mlflow import MlflowClient

from mlops.home.folder import Home as Folder
from mlops.home.processes import claimed
from mlops.runs.listing import list_runs
from mlops.runs.results import load_round, open_run
from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.slow, pytest.mark.long]
MANY = ["--set", "training.tasks_per_round=24"]  # so that most tokens are those of the rounds
EVERY = [*MANY, "--set", "evaluation.validate_every=1", "--set", "policy.keep.last=2"]
ONCE = [*MANY, "--set", "evaluation.validate_every=3", "--set", "policy.keep.last=1"]


def folder_of(home: Home) -> Folder:
    return Folder(home.folder / ".rlft")


def policies(home: Folder) -> list[Path]:
    return sorted(home.root.glob("zenml/local_stores/*/train_grpo_*/policy/*/*/policy/model/model.safetensors"))


def listed(home: Folder, name: str):
    return next(run for run in list_runs(home).runs if run.name == name)


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
    killed = home.rlft("run", str(TINY), *EVERY, "--name", "third", kill_at="steps.promotion:register_policy_version:1")
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
    with closing(sqlite3.connect(home.databases[0])) as database:
        named = {Path(uri) for (uri,) in database.execute("SELECT uri FROM artifact_version")}
        steps = {str(UUID(key)) for (key,) in database.execute("SELECT id FROM step_run")}
    assert [place for place in named if not place.is_dir()] == []
    [store] = [place for place in (home.root / "zenml/local_stores").iterdir() if place.name != "default_zen_store"]
    assert {place for place in store.glob("*/*/*/*") if any(place.rglob("*.*"))} == named
    owners = {place.parent.name for place in store.glob("*/*/*/*")}
    assert owners - steps == {place.parent.name for place in named} - steps  # nothing that a kill left half written
    client = MlflowClient(home.tracking_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    runs = {run.info.run_id for run in client.search_runs(experiments)}
    traces = client.search_traces(locations=experiments, include_spans=False, max_results=500)
    assert {trace.info.trace_metadata["mlflow.sourceRun"] for trace in traces} <= runs
    versions = client.search_model_versions()
    assert len(versions) == 2
    for version in versions:
        place = Path(client.get_model_version_download_uri(version.name, version.version).removeprefix("file://"))
        assert (place / "artifacts/policy/model/model.safetensors").is_file()


def test_the_list_says_what_became_of_each_run(shared):
    runs = {run.name: run for run in list_runs(folder_of(shared)).runs}
    assert {name: run.status for name, run in runs.items()} == {
        "first": runs["first"].summary.status, "second": runs["second"].summary.status, "third": "killed",
    }  # fmt: skip
    assert runs["first"].status in ("improved", "not_improved")
    assert (len(runs["first"].attempts), len(runs["second"].attempts)) == (2, 1)
    assert (runs["first"].version, runs["second"].version) == (("tiny", "2"), ("tiny", "1"))
    assert runs["first"].tokens > runs["second"].tokens > 0  # whose rounds came from the cache
    printed = shared.rlft("runs").output
    assert all(name in printed for name in runs)


def test_what_has_an_alias_or_can_be_resumed_stays(shared):
    def there() -> list[Path]:
        return [place for place in sorted(folder_of(shared).root.rglob("*")) if "scratch" not in place.parts]

    before = there()
    said = shared.rlft("prune", "--keep-last", "0", "--dry-run").output
    assert "first stays: tiny 2 is challenger" in said
    assert "third stays: it can be resumed" in said
    assert "1 run to remove" in said
    assert there() == before
    refused = shared.rlft("delete", "second")
    assert (refused.code, "give --yes" in refused.output) == (2, True)


@pytest.mark.parametrize(
    "kill_at",
    [
        "-",
        "mlops.runs.removing:_remove_traces:1",
        "mlops.runs.removing:_remove_from_zenml:1",
        "os:unlink:4",
        "pathlib:Path.unlink:3",  # in the run's own folder
    ],
)
def test_a_removal_that_is_killed_anywhere_is_ended_by_the_same_command(copied, tmp_path, kill_at):
    home, kept = Home(tmp_path), policies(copied)
    done = home.rlft("delete", "first", "--yes", kill_at=kill_at)
    assert done.code == (0 if kill_at == "-" else -9), done.output
    if kill_at != "-":
        assert home.rlft("delete", "first", "--yes").code == 0
    assert_whole(copied)
    assert {run.name for run in list_runs(copied).runs} == {"second", "third"}
    assert policies(copied) == kept  # all of them are used by the others, through the cache
    assert load_round(open_run(copied, "second", None), "0").rewards is not None
    assert home.rlft("doctor", "--verify").code == 0


def test_a_run_that_another_process_goes_on_with_stays(copied, tmp_path):
    before = sorted(copied.root.rglob("*.parquet"))
    with claimed(copied.run_folder("first")):  # as `rlft resume first` does
        said = Home(tmp_path).rlft("delete", "first", "--yes").output
    assert "first stays: it goes on" in said
    assert sorted(copied.root.rglob("*.parquet")) == before


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

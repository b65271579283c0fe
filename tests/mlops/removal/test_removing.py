"""What a removal leaves that is cut short, and what it must not take. With real runs: tests/e2e/test_removal.py."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from mlflow import MlflowClient

from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.ids import AS_STORED, MADE_AGAIN
from mlops.removal import removing as removal
from mlops.removal.note import Note, unfinished_removal
from mlops.removal.plan import make_plan
from mlops.removal.rows import hide_from_cache, remove_from_zenml
from mlops.runs.listing import list_runs
from mlops.runs.store import RunStore
from tests.mlops.made import make_run

SCHEMA = """
CREATE TABLE pipeline (id TEXT, name TEXT);
CREATE TABLE pipeline_run (id TEXT, name TEXT, status TEXT, created TEXT, start_time TEXT, end_time TEXT,
  pipeline_id TEXT, model_version_id TEXT, snapshot_id TEXT);
CREATE TABLE pipeline_snapshot (id TEXT, name TEXT);
CREATE TABLE model_version (id TEXT);
CREATE TABLE tag (id TEXT, name TEXT);
CREATE TABLE tag_resource (tag_id TEXT, resource_id TEXT);
CREATE TABLE logs (uri TEXT, pipeline_run_id TEXT, step_run_id TEXT);
CREATE TABLE step_run (id TEXT, status TEXT, created TEXT, cache_expires_at TEXT, original_step_run_id TEXT,
  snapshot_id TEXT, pipeline_run_id TEXT REFERENCES pipeline_run (id) ON DELETE CASCADE, start_time TEXT,
  end_time TEXT);
CREATE UNIQUE INDEX runs ON pipeline_run (id);
CREATE TABLE step_run_output_artifact (name TEXT, step_id TEXT, artifact_id TEXT);
CREATE TABLE step_run_input_artifact (name TEXT, step_id TEXT, artifact_id TEXT);
CREATE TABLE artifact (id TEXT);
CREATE TABLE artifact_version (id TEXT, artifact_id TEXT, uri TEXT);
CREATE TABLE run_metadata (id TEXT, key TEXT, value TEXT);
CREATE TABLE run_metadata_resource (resource_id TEXT, run_metadata_id TEXT);
INSERT INTO pipeline VALUES ('p', 'train');
"""
STAMP = MADE_AGAIN.strftime(AS_STORED)
LATER = "2999-01-01 00:00:00.000000"
KEYS = {"first": f"{1:032x}", "second": f"{2:032x}", "third": f"{3:032x}"}
STEPS = {f"{name} {step}": f"{key[1:]}{step}" for name, key in KEYS.items() for step in "ab"}


@pytest.fixture
def home(tmp_path):
    """Three runs of two steps; `third` has its first one from `first`, where it was made again since."""
    home = Home(tmp_path / "home")
    ZENML.file(home).parent.mkdir(parents=True)
    change(home, SCHEMA)
    now = datetime.now(UTC).strftime(AS_STORED)
    for name, key in KEYS.items():
        change(home, f"""
            INSERT INTO pipeline_run
              VALUES ('{key}', '{name}', 'completed', '{now}', '{now}', '{now}', 'p', NULL, NULL);
            INSERT INTO step_run VALUES
              ('{STEPS[f"{name} a"]}', 'completed', '{now}', NULL, NULL, NULL, '{key}', '{now}', '{now}'),
              ('{STEPS[f"{name} b"]}', 'completed', '{now}', '{LATER}', NULL, NULL, '{key}', '{now}', '{now}');
        """)  # fmt: skip
        RunStore(home).start(make_run(str(UUID(key)), name, datetime.now(UTC).replace(tzinfo=None)), name)
        RunStore(home).end(name, str(UUID(key)), "completed")
    expire(home, "first a")
    change(
        home,
        f"UPDATE step_run SET status = 'cached', original_step_run_id = '{STEPS['first a']}' "
        f"WHERE id = '{STEPS['third a']}'",
    )
    return home


def change(home, script):
    with closing(sqlite3.connect(ZENML.file(home))) as database:
        database.executescript(script)


def expire(home, step):
    """Do as a resume does with what is damaged."""
    change(home, f"UPDATE step_run SET cache_expires_at = '{STAMP}' WHERE id = '{STEPS[step]}'")


def expiries(home):
    with closing(sqlite3.connect(ZENML.file(home))) as database:
        found = dict(database.execute("SELECT id, cache_expires_at FROM step_run").fetchall())
    return {step: found[key] for step, key in STEPS.items() if key in found}


def planned(home, *names):
    return make_plan(home, [run for run in list_runs(home).runs if run.name in names], resumable_too=True)


def stop(*_):
    raise KeyboardInterrupt


def test_a_removal_that_is_interrupted_before_it_removes_leaves_the_cache_as_it_was(home, monkeypatch):
    before = expiries(home)
    monkeypatch.setattr("mlops.removal.removing.time.sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        removal.remove_runs(home, planned(home, "second"), settle=0)
    assert expiries(home) == before
    assert unfinished_removal(home) is None


def test_a_removal_that_was_killed_before_it_removed_is_undone_by_the_next(home):
    before = expiries(home)
    hide_from_cache(home, [KEYS["first"], KEYS["second"]])
    hidden = expiries(home)
    assert hidden["first a"] == STAMP  # and not a time that a clock says
    assert {hidden["first b"], hidden["second a"], hidden["second b"]} & set(before.values()) == set()
    expire(home, "second a")
    removal.remove_runs(home, planned(home), settle=0)
    assert expiries(home) == {**before, "second a": STAMP}
    assert unfinished_removal(home) is None


def test_doctor_undoes_what_had_removed_nothing_and_leaves_the_rest_to_prune(home):
    before = expiries(home)
    note = hide_from_cache(home, KEYS.values())
    assert removal.put_back(home)
    assert (expiries(home), unfinished_removal(home)) == (before, None)
    note = hide_from_cache(home, KEYS.values())
    begun = Note([KEYS["first"]], "first", [], [], note.hidden, note.hidden_at)
    begun.write(home)
    assert not removal.put_back(home)
    assert (expiries(home), unfinished_removal(home)) == (before, begun)


def test_a_note_of_a_run_that_is_not_there_is_ended_and_leads_nowhere_else(home, tmp_path):
    (kept := tmp_path / "kept").mkdir()
    (own := home.root / "runs" / "gone.json").write_text("{}")
    before = sorted(home.root.rglob("*"))
    paths = ["runs/gone.json", "runs/none.json", "../kept", str(kept), "zenml", "runs"]
    Note(["9" * 32], "gone", ["none"], paths, {"8" * 32: None}, "2026-01-01").write(home)
    removal.remove_runs(home, planned(home), settle=0)
    assert kept.is_dir()
    assert [path for path in before if not path.exists()] == [own]
    assert unfinished_removal(home) is None


def test_runs_that_an_ended_removal_had_not_come_to_are_in_the_cache_again(home, monkeypatch):
    before = expiries(home)

    def cut(home, note):
        if note.name == first:
            stop()

    plan = planned(home, "second", "third")
    first, other = plan.runs[0].name, plan.runs[1].name
    with monkeypatch.context() as patch:
        patch.setattr(removal, "remove_from_mlflow", cut)
        patch.setattr(removal, "give_back", lambda *_: None)  # a kill
        with pytest.raises(KeyboardInterrupt):
            removal.remove_runs(home, plan, settle=0)
    assert first not in {run.name for run in list_runs(home).runs}
    assert expiries(home)[f"{other} b"] != LATER
    removal.remove_runs(home, planned(home), settle=0)
    assert expiries(home) == {step: expiry for step, expiry in before.items() if not step.startswith(first)}


def test_who_inherits_a_result_that_was_made_again_is_no_source_of_the_cache_either(home):
    remove_from_zenml(home, Note([KEYS["first"]], "first", []))
    assert expiries(home)["third a"] == STAMP
    assert (expiries(home)["third b"], expiries(home)["second a"]) == (LATER, None)


@pytest.mark.parametrize("kind", ["run", "elsewhere"])
def test_the_files_of_a_version_stay_wherever_they_lie(home, kind):
    """A version that a person has made of a file in the run's artifacts, or of one that an old note names."""
    client = MlflowClient(home.tracking_uri)
    experiment = client.create_experiment("e", artifact_location=(home.root / "mlflow-artifacts").as_uri())
    ids = [client.create_run(experiment).info.run_id for _ in range(2)]
    folders = [Path(client.get_run(one).info.artifact_uri.removeprefix("file://")) for one in ids]
    old = home.root / "zenml/old"
    for folder in (*folders, old):
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "weights").write_text("w")
    client.create_registered_model("tiny")
    source = folders[0] if kind == "run" else old
    client.create_model_version("tiny", source=(source / "model").as_uri())
    note = Note([KEYS["first"]], "first", ids, ["zenml/old", "zenml/old/model/weights"])
    removal._remove(home, note)
    assert (source / "model" / "weights").is_file()
    assert not (folders[1] / "model").exists()
    assert [(folders[0] / "model").exists(), (old / "model").exists()] == [kind == "run", kind == "elsewhere"]
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert left == ({ids[0]} if kind == "run" else set())


@pytest.mark.parametrize(("gone", "ended", "kept"), [(1, True, True), (2, True, False), (2, False, True)])
def test_the_run_of_a_sweep_goes_with_the_last_of_its_runs_once_it_has_ended(home, gone, ended, kept):
    client = MlflowClient(home.tracking_uri)
    experiment = client.create_experiment("e", artifact_location=(home.root / "mlflow-artifacts").as_uri())
    sweep = client.create_run(experiment, tags={"rlft.sweep": "seed=1,2"}).info.run_id
    if ended:
        client.set_terminated(sweep)
    nested = {"mlflow.parentRunId": sweep}
    ids = [client.create_run(experiment, tags=nested).info.run_id for _ in range(2)]
    removal._remove(home, Note([KEYS["first"]], "first", ids[:gone]))
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert left == {*ids[gone:], *([sweep] if kept else [])}

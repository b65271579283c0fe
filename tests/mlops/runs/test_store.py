"""What is read of a run from its folder. That pipelines write it: tests/e2e/test_train.py."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from mlops.home.folder import Home
from mlops.ids import EVALUATION, REWARDS, ROLLOUTS, TASKS, TRAIN_REPORT
from mlops.runs.results import load_round, open_run
from mlops.runs.store import RunStore
from rlft.errors import DamagedError, FormatVersionError, RlftError
from rlft.types import storage
from tests.factories import make_scored, make_task, make_task_set
from tests.mlops.made import make_run, put

ROWS, SCORED = make_scored({"a": [1.0, 0.0], "b": [0.5]})
TASK_SET = make_task_set(make_task("a", split="gate"), make_task("b", split="test"))


def written(table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


@pytest.fixture
def run(home):
    """A run of which two attempts have been made, and a round."""
    store = RunStore(home)
    store.start(make_run("aa11", "sums", config={"name": "sums", "seed": 1e-5}, labels={"name": "sums"}), "sums")
    run = store.start(make_run("bb22", "sums-resumed-1", datetime(2025, 1, 2), config={"name": "sums"}), "sums")
    put(run, ROLLOUTS, "r001", written(storage.rollouts_to_table(ROWS)), environment_fingerprint="e")
    put(run, REWARDS, "r001", written(storage.rewards_to_table(SCORED)))
    put(run, TASKS, "", written(storage.tasks_to_table(TASK_SET)))
    return run


def test_a_run_has_all_attempts_and_the_settings_of_the_newest(home, run):
    found = RunStore(home).called("sums")
    assert found is not None
    assert [each["id"] for each in found.attempts] == ["bb22", "aa11"]
    assert (found.config, found.pipeline, found.began) == ({"name": "sums"}, "train", datetime(2025, 1, 1, tzinfo=UTC))
    store = RunStore(home)
    store.end("sums", "bb22", "completed", datetime(2025, 1, 3, tzinfo=UTC), gpu_hours=1.5)
    store.end("sums", "another", "failed")  # of a run on a stack that has the same name
    store.end("none", "another", "failed")
    assert [each["status"] for each in store.runs()[0].attempts] == ["completed", "running"]
    assert store.runs()[0].attempts[0]["gpu_hours"] == 1.5


@pytest.mark.parametrize("asked", ["sums", "aa11", "a", "bb22", "sums-resumed-1", "sums-r"])
def test_a_run_is_found_by_name_or_id_of_any_attempt_or_their_beginning(home, run, asked):
    RunStore(home).start(make_run("cc", "sums-of-three"), "sums-of-three")
    assert open_run(home, asked, None).name == "sums"


@pytest.mark.parametrize("asked", ["sum", "none", "", "../runs/sums", "s%"])
def test_a_run_that_is_not_clear_is_refused(home, run, asked):
    RunStore(home).start(make_run("cc", "sums-of-three"), "sums-of-three")
    with pytest.raises(RlftError) as caught:
        open_run(home, asked, None)
    assert caught.value.where == "RUN"


def test_a_round_is_read_with_its_tasks_and_without_what_is_not_there(run):
    found = load_round(run, "1")
    assert found.name == "r001"
    assert [each.rollout_id for each in found.rollouts] == [each.rollout_id for each in ROWS]
    assert found.rewards is not None
    assert [each.total for each in found.rewards] == [1.0, 0.0, 0.5]
    assert (found.fates, found.tasks) == ({}, TASK_SET.by_id())
    put(run, TRAIN_REPORT, "r001", json.dumps({"format": 1, "fates": {"x": "trained"}, **REPORT}).encode())
    assert load_round(run, "1").fates == {"x": "trained"}
    assert run.noted_of_step(ROLLOUTS, "r001", "environment_fingerprint") == "e"
    assert run.noted_of_step(ROLLOUTS, "r002", "environment_fingerprint") == ""
    with pytest.raises(RlftError) as caught:
        load_round(run, "2")
    assert caught.value.where == "ROUND"
    assert "r001" in caught.value.fix


REPORT = {"round": 1, "metrics": {}, "updates": 1, "seconds": 1.0}


def test_what_a_replay_was_given_counts_as_its_own(home, run):
    replay = RunStore(home).start(make_run("dd", "again", pipeline="rescore"), "again")
    given = run.steps["generate_rollouts_r001"]["outputs"]
    replay.keep_steps({"score_rewards_r001": {"began": "1", "cached": False, "outputs": {}, "inputs": given}})
    assert [row.rollout_id for row in replay.output(ROLLOUTS, "r001")] == [row.rollout_id for row in ROWS]


DAMAGES: dict[str, Callable] = {
    "gone": lambda file: file.unlink(),
    "changed": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"?"),
    "cut": lambda file: file.write_bytes(b""),
    "folder gone": lambda file: (file.unlink(), file.parent.rmdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("stored", "step"), [(ROLLOUTS, "generate_rollouts_r001"), (REWARDS, "score_rewards_r001")])
def test_a_damaged_file_is_named_with_its_run_and_step(run, damage, stored, step):
    file = run.home.root / run.steps[step]["outputs"][stored.output]["place"] / stored.file
    DAMAGES[damage](file)
    with pytest.raises(DamagedError) as caught:
        load_round(run, "1")
    assert (caught.value.where, caught.value.run, caught.value.step) == (str(file), "sums", step)


def test_damaged_tasks_are_left_out_as_the_rollouts_are_whole(run):
    (run.home.root / run.steps["ingest_tasks"]["outputs"]["tasks"]["place"] / "tasks.parquet").write_bytes(b"x")
    assert load_round(run, "1").tasks == {}


@pytest.mark.parametrize(
    ("content", "error"), [(b'{"format": 99}', FormatVersionError), (b"[1]", DamagedError), (b"{}", FormatVersionError)]
)
def test_a_report_that_was_stored_so_and_cannot_be_read_is_named(run, content, error):
    put(run, EVALUATION, "trained", content)
    with pytest.raises(error) as caught:
        run.output(EVALUATION, "trained")
    assert caught.value.where.endswith("evaluation/report.json")


def test_a_file_of_another_version_is_told_and_left_out(home, run):
    (run.folder / "run.json").write_text('{"format": 99}')
    store = RunStore(home)
    assert store.runs() == []
    assert [str(run.folder / "run.json") in problem for problem in store.problems] == [True]

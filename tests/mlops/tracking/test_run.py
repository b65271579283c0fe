"""The MLflow run of a pipeline run: written once, never in the way of training, without secrets; what it has noted."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from itertools import pairwise

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import path_not_unique, validate_param_and_metric_name

from mlops.tracking import run as tracking
from mlops.tracking.address import quick_http
from mlops.tracking.run import Tracker, noted_code
from mlops.tracking.values import flatten, legal_name, reason_of, redact, short
from rlft.texts.secrets import hide_secrets
from rlft.types import Task, TaskSet
from tests.mlflow_stores import new_store

DOWN = "http://someone:hunter2@127.0.0.1:9"  # port 9 (discard): nothing listens there


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One database for all tests of this file: making one takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    return new_store(folder), f"file:{folder}/artifacts"


@pytest.fixture
def open_run(store, tmp_path, request):
    def open_again(**kwargs):
        given = {"missed_path": tmp_path / "missed.json", "artifact_location": store[1]} | kwargs
        return Tracker(store[0], "experiment", request.node.name, "a run", **given)

    return open_again


def curve(tracker, name):
    history = MlflowClient(tracking_uri=tracker.tracking_uri).get_metric_history(tracker.run_id, name)
    return sorted((metric.step, metric.value) for metric in history)


def stored(tracker):
    return MlflowClient(tracking_uri=tracker.tracking_uri).get_run(tracker.run_id)


def test_a_resumed_run_has_whole_curves_without_duplicates(open_run):
    first = open_run(tags={"stack": "local"})
    for step in range(3):
        first.log_metrics({"reward": step / 10}, step)
    first.log_metrics({"eval/accuracy": 0.5}, 2)
    first.finish("FAILED")
    assert stored(first).info.status == "FAILED"

    second = open_run()
    assert second.run_id == first.run_id
    assert stored(second).info.status == "RUNNING"
    for step in range(5):  # a replayed body goes through all its rounds again
        second.log_metrics({"reward": step / 10, "kl": 0.0}, step)
    second.log_metrics({"reward": 9.9}, 4)
    second.finish()

    assert curve(second, "reward") == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert curve(second, "kl") == [(step, 0.0) for step in range(5)]  # a metric that is new gets all its rounds
    assert curve(second, "eval/accuracy") == [(2, 0.5)]
    assert stored(second).info.status == "FINISHED"
    assert stored(second).data.tags["stack"] == "local"
    assert not second.missed_path.exists()


@pytest.mark.slow
def test_a_curve_that_grows_is_whole_and_has_each_step_once(open_run):
    first = open_run()
    first.log_curves({"sft/loss": [3.0, 2.0], "sft/grad_norm": [1.0, 1.0]})  # then it is killed
    second = open_run()
    second.log_curves({"sft/loss": [3.0, 2.0, 1.5], "sft/grad_norm": [1.0, 1.0, float("inf")]})
    second.log_curves({"sft/loss": [3.0, 2.0, 1.5, 1.0], "sft/grad_norm": [1.0, 1.0, float("inf"), 0.5]})
    second.log_curves({"sft/loss": (), "sft/grad_norm": ()})
    third = open_run()  # a replay serves the report from the cache
    third.log_curves({"sft/loss": (3.0, 2.0, 1.5, 1.0)})
    third.finish()
    assert curve(third, "sft/loss") == [(1, 3.0), (2, 2.0), (3, 1.5), (4, 1.0)]
    assert curve(third, "sft/grad_norm") == [(1, 1.0), (2, 1.0), (4, 0.5)]


def test_a_curve_waits_once_for_a_tracker_that_is_away(tmp_path, store, monkeypatch):
    monkeypatch.setattr(tracking, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(tracking, "check_reachable", lambda uri: (_ for _ in ()).throw(OSError("away")))
    tracker = Tracker(store[0], "experiment", "away", "a run", missed_path=tmp_path / "missed.json")
    for steps in range(1, 4):
        tracker.log_curves({"sft/loss": [float(step) for step in range(steps)]})
    tracker.finish()
    waiting = [
        entry for entry in json.loads((tmp_path / "missed.json").read_text())["entries"] if entry["kind"] != "end"
    ]
    assert [entry["values"] for entry in waiting] == [{"sft/loss": [0.0, 1.0, 2.0]}]
    monkeypatch.undo()
    again = Tracker(store[0], "experiment", "away", "a run", missed_path=tmp_path / "missed.json")
    assert curve(again, "sft/loss") == [(1, 0.0), (2, 1.0), (3, 2.0)]


def test_another_root_run_is_another_run(open_run, store, tmp_path):
    other = Tracker(store[0], "experiment", "someone else", "b", missed_path=tmp_path / "m")
    assert open_run().run_id != other.run_id
    assert other.experiment_id == open_run().experiment_id


def test_params_are_flat_cut_and_stay(open_run, caplog):
    tracker = open_run()
    tracker.log_params({"policy": {"lora": {"rank": 8}, "model": None}, "list": [1, 2], "long": "x" * 7000})
    tracker.log_params({"many": {str(i): i for i in range(250)}, "judge": {"api_key": "sk-1", "max_tokens": 5}})
    params = stored(tracker).data.params
    assert params["policy.lora.rank"] == "8"
    assert params["policy.model"] == "null"
    assert params["list"] == "[1, 2]"
    assert len(params["long"]) == 6000
    assert sum(name.startswith("many.") for name in params) == 250
    assert (params["judge.api_key"], params["judge.max_tokens"]) == ("***", "5")

    again = open_run()
    again.log_params({"policy": {"lora": {"rank": 16}}, "new": 1})
    assert "policy.lora.rank" in caplog.text
    assert stored(again).data.params["policy.lora.rank"] == "8"
    assert stored(again).data.params["new"] == "1"
    assert again.flush() == 0


def test_data_sets_tags_and_artifacts(open_run, store):
    tracker = open_run()
    tasks = tuple(
        Task(f"t{i}", "rlft.environments.arithmetic:Arithmetic", (), None, {}, split, f"g{i // 2}")
        for i, split in enumerate(["train", "train", "train", "gate"])
    )
    for _ in range(2):  # a replay names them again
        tracker.log_tasks(TaskSet(tasks, "f" * 64), source="tasks.jsonl")
    tracker.set_tags({"verdict": "trainable", "count": 3})
    tracker.log_json("reports/gate.json", {"password": "p", "path": "https://u:pw@host/x", "n": 1})
    tracker.log_text("notes.txt", "kurz und gut äöü")
    assert tracker.flush() == 0

    run = stored(tracker)
    found = {i.dataset.name: i for i in run.inputs.dataset_inputs}
    assert set(found) == {"Arithmetic-train", "Arithmetic-gate"}
    train = found["Arithmetic-train"]
    assert train.dataset.digest == "f" * 36  # MLflow's limit
    assert json.loads(train.dataset.profile) == {"num_rows": 3, "num_groups": 2}
    assert json.loads(train.dataset.source)["tags"] == {"source": "tasks.jsonl", "fingerprint": "f" * 64}
    assert [(tag.key, tag.value) for tag in train.tags] == [("mlflow.data.context", "train")]
    assert (run.data.tags["verdict"], run.data.tags["count"]) == ("trainable", "3")
    folder = run.info.artifact_uri.removeprefix("file://").removeprefix("file:")
    assert folder.startswith(store[1].removeprefix("file:"))
    with open(os.path.join(folder, "reports/gate.json")) as file:
        assert json.load(file) == {"password": "***", "path": "https://***@host/x", "n": 1}
    with open(os.path.join(folder, "notes.txt"), encoding="utf-8") as file:
        assert file.read() == "kurz und gut äöü"


def test_numbers_that_are_not_finite_are_left_out(open_run, caplog):
    tracker = open_run()
    tracker.log_metrics({"loss": float("nan"), "kl": float("inf"), "pass@1": 1.0}, 0)
    assert "kl, loss not finite" in caplog.text
    assert stored(tracker).data.metrics == {"pass_at_1": 1.0}


@pytest.mark.slow
def test_a_server_that_is_down_stops_nothing_and_loses_nothing(tmp_path, caplog, store):
    missed = tmp_path / "deep" / "missed.json"
    environment = dict(os.environ)
    started = time.monotonic()
    with caplog.at_level(logging.INFO):
        tracker = Tracker(DOWN, "experiment", "root", "run", missed_path=missed)
        tracker.log_params({"a": 1})
        for step in range(50):
            tracker.log_metrics({"reward": float(step)}, step)
        tracker.log_tasks(TaskSet((Task("t", "e", (), None, {}, "train", "g"),), "f"))
        tracker.finish("FAILED")
    assert time.monotonic() - started < 10
    assert tracker.run_id is None
    assert "127.0.0.1:9 (no run" in tracker.where
    ours = [r for r in caplog.records if r.name == "mlops.tracking.run"]
    assert len(ours) == 2  # one warning, and the path at the end
    assert str(missed) in ours[-1].getMessage()
    assert "hunter2" not in caplog.text + tracker.where + missed.read_text()
    assert dict(os.environ) == environment

    content = json.loads(missed.read_text())
    kinds = [entry["kind"] for entry in content["entries"]]
    assert kinds == ["params", *["metrics"] * 50, "tasks", "end"]
    assert content["entries"][3]["values"] == {"reward": 2.0}

    # The next attempt of the same root run, with the server back, writes what was missed and removes the file.
    later = Tracker(store[0], "experiment", "root", "run", missed_path=missed)
    later.finish()
    assert curve(later, "reward") == [(step, float(step)) for step in range(50)]
    assert stored(later).info.status == "FINISHED"
    assert not missed.exists()


def test_a_store_that_hangs_is_probed_after_ever_longer_pauses_and_what_it_misses_is_on_disk_at_once(
    tmp_path, monkeypatch
):
    clock, probes = [1000.0], []

    def hangs(uri):
        probes.append(clock[0])
        clock[0] += 5
        raise TimeoutError("nothing within 5 s")

    monkeypatch.setattr(tracking, "check_reachable", hangs)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    missed = tmp_path / "missed.json"
    tracker = Tracker(DOWN, "experiment", "root", "run", missed_path=missed)
    assert tracker.is_away
    for step in range(3600):  # a round a second, for an hour
        clock[0] += 1
        tracker.log_metrics({"reward": 1.0}, step) if step % 60 == 0 else tracker._retry()
    # 5 s each, after pauses of 30, 60, 120, 240, 480 and 600 s: 45 s of an hour are spent waiting
    assert [round(after - before - 5, -1) for before, after in pairwise(probes)] == [
        30, 60, 120, 240, 480, 600, 600, 600, 600,
    ]  # fmt: skip
    entries = json.loads(missed.read_text())["entries"]  # nothing has ended the run: a kill leaves this
    assert [entry["step"] for entry in entries] == list(range(0, 3600, 60))


@pytest.mark.parametrize(("room", "said"), [(True, "; they are in "), (False, "; they are lost")])
def test_what_the_tracker_misses_is_said_to_be_where_it_is(room, said, tmp_path, monkeypatch, caplog):
    tracker = Tracker(DOWN, "experiment", "root", "run", missed_path=tmp_path / "missed.json")
    if not room:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(tracking, "write_file", lambda *given: (_ for _ in ()).throw(full))
    tracker.finish()
    assert said in caplog.messages[-1]


def test_a_store_that_answers_again_is_trusted_again(open_run, monkeypatch):
    tracker = open_run()
    real, away = MlflowClient.log_batch, [True]

    def sometimes(self, run_id, **given):
        if away[0]:
            raise OSError("connection reset")
        real(self, run_id, **given)

    monkeypatch.setattr(MlflowClient, "log_batch", sometimes)
    monkeypatch.setattr(tracking, "PAUSE_SECONDS", 0.0)
    tracker.log_metrics({"reward": 1.0}, 0)
    assert tracker.missed_path.exists()
    away[0] = False
    tracker.log_metrics({"reward": 2.0}, 1)
    assert not tracker.missed_path.exists()
    assert not tracker.is_away
    assert curve(tracker, "reward") == [(0, 1.0), (1, 2.0)]


def test_what_fails_once_is_written_at_the_next_flush(open_run, monkeypatch, caplog):
    tracker = open_run()
    real, down, sent = MlflowClient.log_batch, [True], []

    def sometimes(self, run_id, metrics):
        sent.extend(metric.step for metric in metrics)
        real(self, run_id, metrics=metrics)  # the worst case: it was written, and then the answer was lost
        if down[0]:
            raise OSError("connection reset")

    monkeypatch.setattr(MlflowClient, "log_batch", sometimes)
    tracker.log_metrics({"reward": 1.0}, 0)
    tracker.log_metrics({"reward": 2.0}, 1)
    assert caplog.text.count("tracking (metrics) failed") == 1
    down[0] = False
    assert tracker.flush() == 0
    assert sent == [0, 1]  # the store was asked first: step 0 is there
    assert curve(tracker, "reward") == [(0, 1.0), (1, 2.0)]


def test_a_refused_entry_does_not_hold_up_the_others(open_run):
    tracker = open_run()
    tracker.set_tags({"k" * 300: "v"})  # MLflow's limit is 250
    tracker.log_metrics({"reward": 1.0}, 0)
    assert curve(tracker, "reward") == [(0, 1.0)]
    tracker.finish()
    assert [e["kind"] for e in json.loads(tracker.missed_path.read_text())["entries"]] == ["tags"]
    assert stored(tracker).info.status == "FINISHED"


def test_an_artifact_store_that_is_away_does_not_hold_up_the_curves(open_run, monkeypatch):
    tracker, calls = open_run(), []

    def away(self, run_id, text, name):
        calls.append(name)
        raise OSError("no route to bucket")

    monkeypatch.setattr(MlflowClient, "log_text", away)
    for step in range(3):
        tracker.log_text(f"/../reports/{step}.txt", "text")
        tracker.log_metrics({"reward": 1.0}, step)
    assert curve(tracker, "reward") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert calls == ["reports/0.txt"]  # then it is left alone for a while
    assert tracker.flush() == 3


def test_what_another_run_has_missed_is_not_written(open_run, store, tmp_path):
    (tmp_path / "missed.json").write_text(
        '{"root_run": "a", "entries": [{"kind": "tags", "values": {"of": "a"}}, {"kind": "end", "status": "KILLED"}]}'
    )
    other = Tracker(store[0], "experiment", "b", "b", missed_path=tmp_path / "missed.json")
    assert "of" not in stored(other).data.tags
    (tmp_path / "missed.json").write_text(
        '{"root_run": "a", "entries": [{"kind": "tags", "values": {"of": "a"}}, {"kind": "end", "status": "KILLED"}]}'
    )
    own = Tracker(store[0], "experiment", "a", "a", missed_path=tmp_path / "missed.json")
    assert (stored(own).data.tags["of"], stored(own).info.status) == ("a", "RUNNING")  # the run goes on


def test_a_database_that_cannot_be_written_fails_at_once(tmp_path, monkeypatch):
    # MLflow's own attempts at a database take up to 100 s: it must not be asked.
    asked = []
    monkeypatch.setattr(tracking, "MlflowClient", lambda tracking_uri: asked.append(tracking_uri))
    (tmp_path / "file").write_text("")
    started = time.monotonic()
    for uri in (f"sqlite:///{tmp_path}/file/mlflow.db", "postgresql+psycopg2://u:p@127.0.0.1:9/mlflow"):
        with pytest.raises(ConnectionError):
            tracking.check_reachable(uri)
        tracker = Tracker(uri, "e", "r", "n", missed_path=tmp_path / "m.json")
        assert tracker.run_id is None
    assert not asked
    assert time.monotonic() - started < 5


def test_no_global_state_is_left(open_run, monkeypatch):
    monkeypatch.setattr(mlflow, "set_tracking_uri", lambda uri: pytest.fail("global address"))
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    before = dict(os.environ)
    with quick_http():
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"  # what a user sets wins
        assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    open_run().finish()
    assert dict(os.environ) == before
    assert mlflow.active_run() is None


def test_texts():
    assert flatten({"a": {"b": {"c": True}}, "d": {}, "e@f": "x"}) == {"a.b.c": "true", "d": "{}", "e_at_f": "x"}
    # sha256 of "rewards/größe (cm)*" begins with these six digits
    assert legal_name("rewards/größe (cm)*") == "rewards/größe _cm___4f3620"
    odd = ["right?", "right!", "a//b", "a/./b", "/a", "a/", "", "..", "x" * 300, "x" * 301, "eval/a: b", "a.b"]
    legal = [legal_name(name) for name in odd]
    assert len(set(legal)) == len(odd)
    assert not any(path_not_unique(name) or not validate_param_and_metric_name(name) for name in legal)
    assert max(map(len, legal)) == 250
    assert redact("see http://u:p@h:1/x and pw", "http://u:pw@h") == "see http://***@h:1/x and ***"
    assert hide_secrets({"token": "t1xY9zQ2w", "tokens": 3, "auth": {"access_token": "x", "token_count": "7"}}) == {
        "token": "***",
        "tokens": 3,
        "auth": {"access_token": "***", "token_count": "7"},
    }


def test_a_data_set_that_another_run_writes_at_the_same_moment_is_written_all_the_same(open_run, monkeypatch, caplog):
    """As two equal runs that begin together do: MLflow looks for a data set first, and inserts it then."""
    found: list[int] = []

    def log_inputs(client, run_id, **given):
        found.append(1)
        if len(found) == 1:
            raise MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: datasets.experiment_id")
        real(client, run_id, **given)

    real = MlflowClient.log_inputs
    monkeypatch.setattr(MlflowClient, "log_inputs", log_inputs)
    tracker = open_run()
    task = Task(
        id="1",
        environment="sums",
        prompt=({"role": "user", "content": "x"},),
        answer="",
        info={},
        split="test",
        group="1",
    )
    tracker.log_tasks(TaskSet((task,), "f"))
    assert len(found) == 2
    assert [each.dataset.name for each in stored(tracker).inputs.dataset_inputs] == ["sums-test"]
    assert "failed" not in caplog.text


def test_the_newest_attempt_counts(tmp_path):
    address = new_store(tmp_path)
    client = MlflowClient(tracking_uri=address)
    experiment = client.create_experiment("mine", artifact_location=(tmp_path / "files").as_uri())
    run = client.create_run(experiment).info.run_id
    assert noted_code(address, run) == {}
    for attempt in (2, 10, 9):
        client.log_dict(run, {"commits": {"rlft": str(attempt)}}, f"identity/attempt-{attempt}.json")
    assert noted_code(address, run) == {"commits": {"rlft": "10"}}


def test_without_an_answer_nothing_is_known():
    assert noted_code("http://127.0.0.1:1", "run") == {}
    assert noted_code("http://127.0.0.1:1", None) == {}


def test_a_reason_is_one_line_without_the_password_of_the_server():
    cause = ConnectionError("postgresql://me:hunter2@there refused\nat line 7")
    said = reason_of(cause, "postgresql://me:hunter2@there")
    assert said.startswith("ConnectionError: postgresql://")
    assert said.endswith("@there refused")
    assert "hunter2" not in said
    assert len(short("y" * 400, "")) == 300

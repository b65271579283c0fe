"""What a run has noted of its code is read from MLflow, and done without where that is away."""

from mlflow.tracking import MlflowClient

from mlops.tracking.noted_code import noted_code
from tests.mlflow_stores import new_store


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

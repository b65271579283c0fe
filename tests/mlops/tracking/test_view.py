"""Which view is opened: that of the experiment in which a run of training, with `rlft.status`, began last."""

from mlflow import MlflowClient

from mlops.tracking.view import VIEW, VIEW_TAG, newest_view
from tests.mlflow_stores import new_store


def test_the_view_is_that_of_the_newest_run_of_training(tmp_path):
    uri = new_store(tmp_path)
    client = MlflowClient(uri)
    old, new, bare = (
        client.create_experiment(name, artifact_location=str(tmp_path), tags=tags)
        for name, tags in (("old", {VIEW_TAG: VIEW}), ("new", {VIEW_TAG: VIEW}), ("bare", {}))
    )
    assert newest_view(uri) is None
    for start, experiment in enumerate([old, new, bare], start=1):
        client.create_run(experiment, start_time=start, tags={"rlft.status": "running"})
    client.create_run(old, start_time=9)  # as of an evaluation, which has no such tag
    name, place = newest_view(uri)
    assert (name, place.partition("?")[0]) == ("new", f"/#/experiments/{new}/runs")
    assert place.endswith("&viewStateShareKey=rlft")

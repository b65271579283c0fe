"""What is asked of MLflow and ZenML to remove a run: all pages of it, and nothing that others need."""

from __future__ import annotations

from types import SimpleNamespace

from mlflow import MlflowClient

from mlops.home.folder import Home
from mlops.runs import removing
from tests.mlflow_stores import new_store


class Traces:
    """A client of MLflow that has traces, and gives a few at a time."""

    def __init__(self, count: int) -> None:
        self.left = [SimpleNamespace(info=SimpleNamespace(trace_id=f"t{number}")) for number in range(count)]
        self.deleted: list[list[str]] = []

    def search_traces(self, *, max_results: int, run_id: str, locations: list[str], include_spans: bool):
        assert (run_id, locations, include_spans) == ("run", ["7"], False)
        return self.left[:max_results]

    def delete_traces(self, experiment: str, trace_ids: list[str]) -> None:
        assert experiment == "7"
        self.deleted.append(trace_ids)
        self.left = [each for each in self.left if each.info.trace_id not in trace_ids]


def test_traces_are_removed_until_none_is_left(monkeypatch):
    monkeypatch.setattr(removing, "_TRACES_AT_ONCE", 2)
    client = Traces(5)
    removing._remove_traces(client, SimpleNamespace(info=SimpleNamespace(run_id="run", experiment_id="7")))
    assert client.deleted == [["t0", "t1"], ["t2", "t3"], ["t4"]]


def test_a_logged_model_goes_with_its_run_unless_it_is_a_version(tmp_path):
    client = MlflowClient(new_store(tmp_path))
    experiment = client.create_experiment("e", artifact_location=f"file:{tmp_path}/artifacts")
    runs = [client.create_run(experiment) for _ in range(2)]
    ids = [*[runs[0].info.run_id] * 3, runs[1].info.run_id]
    version, tagged, alone, of_another = (
        client.create_logged_model(experiment, name="m", source_run_id=run_id) for run_id in ids
    )
    client.create_registered_model("m")
    client.create_model_version("m", source=version.artifact_location, run_id=ids[0])
    client.set_logged_model_tags(tagged.model_id, {"mlflow.modelVersions": "[]"})
    removing._remove_models(client, runs[0])
    left = {each.model_id for each in client.search_logged_models([experiment])}
    assert left == {version.model_id, tagged.model_id, of_another.model_id}
    assert alone.model_id not in left


def test_artifacts_that_another_run_has_found_in_the_cache_are_spared(tmp_path, monkeypatch):
    home = Home(tmp_path)
    store = home.root / "zenml" / "local_stores" / "s"
    folders = {name: store / "step" / "output" / name for name in ("own", "shared", "foreign")}
    for folder in folders.values():
        (folder / "file").mkdir(parents=True)
    gone: list[str] = []

    def listed(items: list) -> SimpleNamespace:
        return SimpleNamespace(items=items, index=1, total_pages=1)

    unused = [SimpleNamespace(id=name, uri=str(folder)) for name, folder in folders.items()]

    class Client:
        def list_run_steps(self, **_):
            return listed([])

        def list_artifact_versions(self, **_):
            return listed(unused)

        def delete_pipeline_run(self, name):
            gone.append(name)

        def delete_artifact_version(self, name):
            gone.append(name)

    mine = SimpleNamespace(name="mine", places=lambda: {folders["own"], folders["shared"]})
    other = SimpleNamespace(name="other", places=lambda: {folders["shared"]})
    monkeypatch.setattr("zenml.client.Client", Client)
    monkeypatch.setattr(
        removing, "RunStore", lambda _: SimpleNamespace(called=lambda name: mine, runs=lambda: [mine, other])
    )
    run = SimpleNamespace(name="mine", attempts=[SimpleNamespace(id="attempt")])
    removing._remove_from_zenml(home, run)
    assert gone == ["attempt", "own"]
    assert [name for name, folder in folders.items() if folder.exists()] == ["shared", "foreign"]

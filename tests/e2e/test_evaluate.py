"""`rlft evaluate` on policies of a tiny run, as a user gives it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import Home, Result
from tests.rlft.engines.chat_servers import ChatServer

pytestmark = pytest.mark.slow

SUITE = """
name: quick
scenarios:
  two:
    tasks: &tasks
      source: reasoning_gym
      generator: gcd
      generator_kwargs: {min_numbers: 2, max_numbers: 2, min_value: 1, max_value: 20}
      prompt: "{metadata[numbers][0]},{metadata[numbers][1]}="
      splits: {train: 1, validation: 1, gate: 1, test: 6}
    environment: &environment {name: "rlft.environments.reasoning_gym:ReasoningGym"}
    sampling: {temperature: 1.0, num_generations: 3, max_completion_length: 4}
    slices: [generator]
  whole:
    tasks: *tasks
    environment: *environment
    splits: all
    sampling: {max_completion_length: 4}
"""
CELLS = ("two", "whole")


def evaluated(home: Home, *arguments: str):
    """The summary of an evaluation, and what it printed."""
    target = home.folder / "evaluation.json"
    target.unlink(missing_ok=True)
    result = home.rlft("evaluate", *arguments, "--suite", "suite.yaml", "--summary", str(target))
    assert result.code == 0, result.output
    return json.loads(target.read_text()), result.output


@pytest.fixture(scope="module")
def tried(finished, tmp_path_factory):
    """A home in which one model was evaluated, and then two: the home, both summaries, and what was printed last."""
    home = finished[0].copy(tmp_path_factory.mktemp("evaluated"))
    (home.folder / "suite.yaml").write_text(SUITE)
    [run] = json.loads(home.rlft("runs", "--json").output)
    one, _ = evaluated(home, f"{run['name']}:start")
    two, printed = evaluated(home, f"{run['name']}:start", "models:/tiny@challenger", "--json")
    return home, one, two, printed


def test_adding_a_model_attempts_the_tasks_with_that_one_alone(tried):
    home, one, two, _ = tried
    steps = home.steps(two["pipeline_run_id"])
    sampled = {name: step["status"] for name, step in steps.items() if name.startswith("generate_rollouts")}
    first = next(iter(two["models"]))
    assert first == next(iter(one["models"]))
    start = {f"generate_rollouts_suite_{cell}_{first.replace('-', '_').replace('.', '_')}" for cell in CELLS}
    assert {name for name, status in sampled.items() if status == "cached"} == start
    assert len(sampled) == 4
    assert [two["scenarios"][cell][first]["splits"] for cell in CELLS] == [
        one["scenarios"][cell][first]["splits"] for cell in CELLS
    ]


def test_the_summary_has_every_metric_by_split_and_slice_and_says_how_the_models_differ(tried):
    _, _, two, printed = tried
    first, second = list(two["models"])
    found = two["scenarios"]["two"][second]["splits"]["test"]
    assert (found["tasks"], found["attempts"], found["num_samples"], found["errors"]) == (6, 18, 3, {})
    names = ["accuracy", "pass_at_1", "pass_at_2", "pass_at_3", "maj_at_k", "errored", "turns", "completion_length"]
    assert set(names) <= set(found["metrics"])
    assert found["slices"]["generator"]["gcd"]["accuracy"] == found["metrics"]["accuracy"]
    assert two["scenarios"]["whole"][second]["splits"]["test"]["tasks"] == 9
    assert [(pair["cell"], pair["first"], pair["second"]) for pair in two["differences"]] == [
        ("two", first, second), ("whole", first, second),
    ]  # fmt: skip
    assert all(first in pair["sentence"] and second in pair["sentence"] for pair in two["differences"])
    assert json.loads(printed[printed.index("{") : printed.rindex("}") + 1]) == two
    assert two["models"][second]["version"] == "1"


def test_mlflow_has_an_evaluation_for_each_model_and_cell_with_a_trace_for_each_attempt(tried):
    home, _, two, _ = tried
    second = list(two["models"])[1]
    run = two["mlflow_runs"]["two"][second]
    read = home.query(f"""
from mlflow import MlflowClient
store = MlflowClient("sqlite:///" + str(__import__("pathlib").Path(".rlft/mlflow.db").resolve()))
run = store.get_run("{run}")
traces = store.search_traces(
    locations=[run.info.experiment_id], filter_string="metadata.`mlflow.sourceRun` = '{run}'", max_results=100
)
first = traces[0]
print(json.dumps({{
    "tags": run.data.tags, "metrics": run.data.metrics, "traces": len(traces),
    "inputs": [each.model_id for each in run.inputs.model_inputs],
    "datasets": [each.dataset.name for each in run.inputs.dataset_inputs],
    "metadata": first.info.trace_metadata,
    "assessments": sorted(each.name for each in first.info.assessments),
    "runs": sorted({{each.metadata["mlflow.assessment.sourceRunId"] for each in first.info.assessments}}),
    "root": first.data.spans[0].span_id, "spans": sorted({{each.span_id for each in first.info.assessments}}),
    "request": json.loads(first.data.request) if first.data.request else None,
    "summary": __import__("mlflow").artifacts.load_dict("runs:/{two["mlflow_run_id"]}/evaluation.json"),
}}))
""")
    assert read["summary"] == two
    assert read["tags"]["mlflow.runType"] == "genai_evaluate"
    assert read["tags"]["mlflow.parentRunId"] == two["mlflow_run_id"]
    found = two["scenarios"]["two"][second]["splits"]["test"]["metrics"]["accuracy"]
    assert read["metrics"]["eval/test/accuracy"] == found["mean"]
    assert read["metrics"]["eval/test/accuracy_low"] == found["low"]
    assert read["traces"] == 18
    assert read["inputs"] == [two["models"][second]["logged_model"]]
    assert read["metadata"]["mlflow.modelId"] == two["models"][second]["logged_model"]
    assert read["datasets"] == ["ReasoningGym-test"]
    assert {"reward", "solved", "expected_response"} <= set(read["assessments"])
    assert (read["runs"], read["spans"]) == ([run], [read["root"]])
    assert read["request"]["messages"][0]["role"] == "user"


def test_an_evaluation_is_listed_and_removed_and_not_resumed(tried, tmp_path):
    home = tried[0].copy(tmp_path)
    evaluation = tried[2]
    runs = json.loads(home.rlft("runs", "--json").output)
    assert [run["kind"] for run in runs] == ["evaluation", "evaluation", "training"]
    refused = home.rlft("resume", runs[0]["name"])
    assert refused.code == 2
    assert "is an evaluation" in refused.output
    removed = home.rlft("delete", "--yes", runs[0]["name"], runs[1]["name"])
    assert removed.code == 0, removed.output
    assert [run["kind"] for run in json.loads(home.rlft("runs", "--json").output)] == ["training"]
    left = home.query("""
import sqlite3
database = sqlite3.connect(".rlft/mlflow.db")
print(json.dumps([database.execute("SELECT count(*) FROM trace_tags WHERE key = 'rlft.cell'").fetchone()[0]]))
""")
    assert left == [0]
    assert not list(Path(home.folder).glob(".rlft/runs/*evaluate*"))
    checked = home.rlft("doctor", "--verify")
    assert "0 files are damaged" in checked.output, checked.output
    assert evaluation["pipeline_run_id"] not in " ".join(str(p) for p in home.folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["models:/tiny@champion"], "MODEL 'models:/tiny@champion': no version has this alias"),
        (["models:/tiny/7"], "there is no such version"),
        (["absent:best"], "MODEL 'absent:best': no run is called 'absent'"),
        (["tiny:round=99"], "it has 3 rounds what to do: name another one: weights are kept after"),
        (["./absent"], "there is no such folder"),
        (["."], "the folder holds no model: config.json is missing"),
        (["a:b"], "it has none of the forms of a model's name"),
    ],
)
def test_what_is_not_there_is_told_of_with_what_there_is_and_leaves_no_run(tried, arguments, says):
    before = tried[0].rlft("runs", "--json").output
    result = tried[0].rlft("evaluate", *arguments, "--suite", "suite.yaml")
    assert result.code == 2, result.output
    assert says in " ".join(result.output.split())
    assert tried[0].rlft("runs", "--json").output == before


def test_a_model_behind_an_address_is_asked_anew_unless_the_cache_is_asked_for(make_home, monkeypatch):
    home = make_home("asked")
    (home.folder / "suite.yaml").write_text(SUITE)
    monkeypatch.setenv("ENDPOINT_KEY", "a-value-that-is-secret")
    with ChatServer(lambda body, number: "1") as server:
        model = f"openai:small@{server.url}"
        asked = []
        for more in ([], [], ["--set", "cache_endpoint=true"]):
            found, _ = evaluated(home, model, "--api-key-env", "ENDPOINT_KEY", *more)
            asked.append(len(server.bodies) - sum(asked))
        # One request to get to know it; 6 tasks 3 times each, and 9 once each.
        assert asked == [1 + 18 + 9, 1 + 18 + 9, 1]
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer a-value-that-is-secret"}
    assert found["models"]["small"]["endpoint"] == server.url
    metrics = found["scenarios"]["whole"]["small"]["splits"]["test"]["metrics"]
    assert "sampled_tokens" not in metrics
    stored = [file for file in home.folder.rglob("*") if file.is_file()]
    assert not [file for file in stored if b"a-value-that-is-secret" in file.read_bytes()]
    gone = home.rlft("evaluate", model, "--suite", "suite.yaml")
    assert gone.code == 2, gone.output
    assert "cannot be asked" in " ".join(gone.output.split())


@dataclass(frozen=True)
class WithHub(Home):
    """A home of somebody who has models of the Hub in a cache of their own; its place is read by an import."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"HF_HOME": str(self.folder / "hub")}

    def rlft(self, *arguments: str, kill_at: str = "-") -> Result:
        done = self.python("-m", "cli", *arguments)
        return Result(done.returncode, done.stdout + done.stderr, None)


def test_a_model_of_the_hub_comes_to_what_the_version_with_its_weights_does(tried, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    home = WithHub(tried[0].copy(tmp_path).folder)
    (home.folder / "suite.yaml").write_text(SUITE)
    cached = home.folder / "hub" / "hub" / "models--small--gcd"
    (cached / "snapshots").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    exported = home.rlft("export", "tiny@challenger", "--to", str(cached / "snapshots" / commit))
    assert exported.code == 0, exported.output
    found, _ = evaluated(home, "small/gcd", "models:/tiny@challenger")
    hub, version = found["models"]
    assert (found["models"][hub]["base_model"], found["models"][hub]["base_revision"]) == ("small/gcd", commit)
    for cell in CELLS:
        both = [found["scenarios"][cell][name]["splits"]["test"]["metrics"]["accuracy"] for name in (hub, version)]
        assert both[0] == both[1]
    absent = home.rlft("evaluate", "small/nothing", "--suite", "suite.yaml")
    assert absent.code == 2, absent.output
    assert "small/nothing" in absent.output

"""A named run that is killed, resumed and run again: what the stores say of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlops.runs.identity import RLFTS_OWN
from tests.e2e.conftest import ROOT, TINY, Home, Result

pytestmark = [pytest.mark.timeout(1500), pytest.mark.slow]

# One round, and nothing whose length depends on the clock: the same again is served from the cache.
SETTINGS = ("name=demo", "training.rounds=1", "controls=[]", "policy.keep.last=5")
SAME = ["run", str(TINY), *(part for setting in SETTINGS for part in ("--set", setting))]
NAMED = ["--name", "first", "--tag", "dataset=press 2026"]


@pytest.fixture(scope="module")
def named(make_home) -> tuple[Home, dict[str, Result]]:
    """A home, and what the commands said."""
    home = make_home("first place")
    killed = home.rlft(*SAME, *NAMED, kill_at="rlft.training.job:train_round:1")
    assert killed.code == -9, killed.output
    done = {
        "runs": home.rlft("runs"),
        "show": home.rlft("show", "first", "0", "--json"),
        "resume": home.rlft("resume", "first"),
        "taken": home.rlft(*SAME, "--name", "first"),
        "again": home.rlft(*SAME, "--set", "name=other", "--name", "second"),
    }
    return home, done


def test_the_run_is_listed_as_killed_and_its_round_is_read(named):
    _, done = named
    assert "killed" in done["runs"].output
    assert done["show"].code == 0, done["show"].output
    assert "train-0-0" in done["show"].output
    assert done["resume"].code == 0, done["resume"].output
    assert done["again"].code == 0, done["again"].output


def test_the_same_run_again_is_served_from_the_cache(named):
    home, done = named
    statuses = {name: step["status"] for name, step in home.steps(done["again"].summary["pipeline_run_id"]).items()}
    worked = {name for name, status in statuses.items() if status != "cached"}
    # `other` is another model in the registry: its first version has no champion to be compared with
    assert worked == {"ingest_tasks", "initialize_policy", "register_policy", "write_report"}


def test_a_registered_model_is_found(named):
    home, done = named
    version = done["resume"].summary["promotion"]["version"]
    downloaded = home.query(f"""
import mlflow, os
mlflow.set_tracking_uri(uri)
folder = mlflow.artifacts.download_artifacts("models:/demo/{version}")
print(json.dumps([folder, os.path.isfile(os.path.join(folder, "artifacts", "policy", "policy.json"))]))
""")
    assert downloaded[1]
    traces = home.query(f"""
from mlflow.tracing.client import TracingClient
run = mlflow_client.get_run("{done["resume"].summary["mlflow_run_id"]}")
traces = TracingClient(uri).search_traces(experiment_ids=[run.info.experiment_id], max_results=5)
print(json.dumps([trace.data.spans[0].name for trace in traces]))
""")
    assert len(traces) == 4  # tracking.trace_rollouts


def test_name_note_and_tags_are_in_mlflow_and_survive_a_resume(named):
    home, done = named
    found = home.query(f"""
run = mlflow_client.get_run("{done["resume"].summary["mlflow_run_id"]}")
experiment = run.info.experiment_id
names = sorted(r.info.run_name for r in mlflow_client.search_runs([experiment]))
print(json.dumps([run.info.run_name, run.data.tags, names]))
""")
    name, tags, names = found
    assert name == "first"
    assert names == ["first"]
    assert "`rlft show first` shows its conversations." in tags["mlflow.note.content"]
    assert tags["dataset"] == "press 2026"
    place = home.folder / ".rlft" / "mlflow-artifacts" / done["resume"].summary["mlflow_run_id"] / "artifacts/identity"
    attempts = sorted(place.iterdir())
    assert [file.name for file in attempts] == [f"attempt-{number + 1}.json" for number in range(len(attempts))]
    assert len(attempts) >= 2
    for file in attempts:
        commits = json.loads(file.read_text())["commits"]
        assert commits["config"] == commits["environment.name"] == RLFTS_OWN  # a fixture of ours
        assert commits["working_directory"] == "no repository"


def test_all_attempts_have_the_same_tags(named):
    home, _ = named
    runs = home.query("""
runs = client.list_pipeline_runs(tags="run=first", sort_by="asc:created")
print(json.dumps([[run.name.split("-resumed-")[0],
    sorted(tag.name for tag in client.get_pipeline_run(run.id).tags)] for run in runs]))
""")
    assert [run[0] for run in runs] == ["first", "first"]
    assert runs[0][1] == runs[1][1] == ["dataset=press 2026", "experiment=demo", "run=first"]


def test_a_round_is_read_from_all_attempts_by_files_as_by_zenml(named):
    home, _ = named
    # sampled and scored by the attempt that was killed, trained by the one that resumed it
    found = home.query("""
from mlops.home.folder import find_home
from mlops.runs.finding import find_run
from mlops.runs.results import load_round, open_run
from mlops.runs.shared import SharedRun
def shown(scored):
    return [scored.name, [scored.record(rollout) for rollout in scored.rollouts]]
names = [run.name for run in client.list_pipeline_runs(tags="equals:run=first")]
print(json.dumps([
    [shown(load_round(run, "0")) for run in (open_run(find_home(), name, None), SharedRun(find_home(), find_run(name)))]
    for name in names]))
""")
    assert len(found) == 2
    assert found[0][0] == found[0][1] == found[1][0] == found[1][1]
    assert {record["fate"].partition(":")[0] for record in found[0][0][1]} <= {"trained", "filtered"}


def test_artifacts_carry_experiment_run_and_round_of_all_runs_that_they_belong_to(named):
    home, _ = named
    found = home.query("""
def tags(artifact, *wanted):
    versions = client.list_artifact_versions(artifact=artifact, tags=list(wanted), size=100)
    return sorted(sorted(tag.name for tag in version.tags) for version in versions)
print(json.dumps([tags("rollouts", "round=0"), tags("policy", "round=0"), tags("rewards", "round=0"),
    tags("train_report"), len(tags("rollouts", "run=first")), len(tags("rollouts", "run=second"))]))
""")
    # what `second` took from the cache was made by `first`, and is of both
    both = [["experiment=demo", "experiment=other", "round=0", "run=first", "run=second"]]
    assert found[:4] == [both, both, both, both]
    assert found[4] == found[5] == 7  # baseline, validation_r000, r000, validation_r001, base, warm_start and trained


def test_a_name_that_exists_is_refused_with_a_sentence(named):
    _, done = named
    assert done["taken"].code == 2
    said = " ".join(done["taken"].output.split())
    assert "--name: a run is called 'first' already (begun 20" in said
    assert "`rlft resume first` goes on" in said


def test_zenml_itself_finds_telemetry_switched_off(named):
    home, _ = named
    config = home.folder / ".rlft" / "zenml" / "config.yaml"
    assert "analytics_opt_in: false" in config.read_text()


def same_words(text: str) -> str:
    """What a page shows and a command prints, without clocks and what depends on the kind of CPU."""
    text = re.sub(r"-resumed-\d+", "-resumed", text)
    return re.sub("production|staging", "STAGE", re.sub("promoted|rejected", "OUTCOME", text)).strip()


def test_the_page_on_zenml_shows_what_its_commands_print(named):
    home, _ = named
    page = (ROOT / "docs" / "guide" / "zenml.md").read_text()
    blocks = re.findall(r"```console\n(\$ .*?)```", page, re.DOTALL)
    shown = [part.partition("\n") for block in blocks for part in block.removeprefix("$ ").split("\n$ ")]
    assert len(shown) == 4
    # all of them in one shell, as a reader would type them
    script = "".join(f"{command}\necho ---\n" for command, _, _ in shown)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**home.environment(), "PATH": path, "ZENML_ANALYTICS_OPT_IN": "false"}
    del variables["ZENML_STORE_URL"]
    done = subprocess.run(["bash", "-ec", script], cwd=home.folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("---\n")[:-1]
    assert [same_words(text) for text in printed] == [same_words(output) for _, _, output in shown]

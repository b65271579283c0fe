"""Two users with a home each on one ZenML server, one MLflow server on PostgreSQL and one S3: docs/guide/team.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_promotion import CONFIG as LEARNS
from tests.team.servers import NEW_PASSWORD, PASSWORD, VALUES
from tests.team.users import ON, Member

pytestmark = [pytest.mark.timeout(7200), pytest.mark.slow]
STACK = ROOT / "configs" / "stacks" / "team.yaml"
FEW = ("--set", "suite={scenarios: {own: {splits: [test]}}, max_traces: 4}")
COMPARED = "accuracy on gate of trained minus the champion is"


def refused(who: Member, file: Path = STACK) -> str:
    done = who.rlft("stack", str(file))
    assert done.code == 2, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


def test_what_is_missing_is_said_with_the_way_out(admin, tmp_path):
    carl = Member(tmp_path, "carl", admin.servers)
    assert f"your ZenML uses no server what to do: zenml login {admin.servers.zenml}" in refused(carl)
    carl.zenml("login", admin.servers.zenml)
    said = refused(carl)
    assert "ZenML has no secret 'mlflow' that you may read" in said
    assert "zenml secret create mlflow --private --interactive, with the keys password and username" in said
    carl.zenml("secret", "create", "mlflow", "--private", "--username=carl")
    assert "ZenML's secret 'mlflow' lacks password what to do: zenml secret update mlflow" in refused(carl)
    carl.zenml("secret", "update", "mlflow", "--password=another-one")


def test_of_two_that_promote_at_once_the_second_waits_until_it_is_compared_with_the_first(trained, anna, ben):
    promotions = {run.summary["promotion"]["version"]: run.summary["promotion"] for run in trained}
    assert set(promotions) == {"1", "2"}  # nothing is lost
    assert promotions["1"]["promoted"]
    if COMPARED in (reasons := " ".join(promotions["2"]["reasons"])):  # it began to compare after the first had ended
        return
    assert not promotions["2"]["promoted"]
    assert "version 1 has passed its gate meanwhile" in reasons
    second = "annas" if trained[0].summary["promotion"]["version"] == "2" else "bens"
    first = {"annas": "ben", "bens": "anna"}[second]
    [change] = ben.json("history", "learns", *ON)["history"]
    assert (change["version"], change["by"]) == ("1", first)
    decided = (anna if first == "ben" else ben).rlft("promote", second, *ON)
    assert decided.code in (0, 7), decided.output  # better than the first, or not
    assert COMPARED in " ".join(decided.output.split())


@pytest.mark.usefixtures("trained", "anna")
def test_everybody_sees_the_runs_of_all(ben):
    assert not (ben.folder / ".rlft" / "shared" / "annas").exists()
    shown = ben.rlft("show", "annas", "0", *ON)
    assert shown.code == 0, shown.output
    assert f"`rlft show annas 0 0 {' '.join(ON)}` shows" in " ".join(shown.output.split())
    assert ben.rlft("report", "annas", *ON).code == 0
    assert "annas" in (ben.folder / "annas.html").read_text()
    assert ben.rlft("compare", "annas", "bens", *ON).code == 0


def test_one_compares_the_models_of_another_and_others_see_that(trained, anna, ben):
    del trained
    target = ben.folder / "evaluation.json"
    done = ben.rlft("evaluate", "annas:best", "bens:best", "--suite", str(LEARNS), *FEW, *ON, "--summary", str(target))
    assert done.code == 0, done.output
    found = json.loads(target.read_text())
    assert {each["model"] for each in found["models"].values()} == {"annas:best", "bens:best"}
    assert {(each["first"], each["second"]) for each in found["differences"]} == {tuple(found["models"])}
    [listed] = [each for each in anna.json("runs", *ON) if each["kind"] == "evaluation"]
    assert (listed["by"], listed["status"]) == ("ben", "finished")


def test_no_password_is_left_in_a_home_or_in_what_the_servers_log(trained, anna, ben):
    places = [each.folder / ".rlft" for each in (anna, ben)] + sorted(anna.servers.folder.glob("*.log"))
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        for secret in (PASSWORD, NEW_PASSWORD, VALUES["S3_SECRET"]):
            assert secret.encode() not in content, file


def test_a_stack_in_kubernetes_is_registered_on_the_same_server(anna, monkeypatch):
    for name, value in {
        "RLFT_KUBERNETES_CONTEXT": "gpus",
        "RLFT_ARTIFACTS_PATH": "s3://zenml/pods",
        "RLFT_IMAGE_REGISTRY": "registry.example",
    }.items():
        monkeypatch.setenv(name, value)
    applied = anna.rlft("stack", str(ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml"))
    assert applied.code == 0, applied.output
    assert "rlft run CONFIG --stack rlft-kubernetes-gpu" in " ".join(applied.output.split())

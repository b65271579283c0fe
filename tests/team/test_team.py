"""Two users with a home each on one ZenML server, one MLflow server on PostgreSQL and one S3: docs/guide/team.md."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from mlops.runs.heartbeat import SILENT_SECONDS
from tests.e2e.conftest import ROOT, TINY
from tests.e2e.test_promotion import CONFIG as LEARNS
from tests.e2e.test_promotion import learning_home
from tests.team.servers import PASSWORD, VALUES
from tests.team.users import Member, at_once

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]
STACK = ROOT / "configs" / "stacks" / "team.yaml"
ON = ("--stack", "team")
COMPARED = "accuracy on gate of trained minus the champion is"
SHORT = ("--set", "seed=5", "--set", "controls=[]", "--set", "training.rounds=1")


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
    said = refused(carl)
    assert "MLflow's server does not let you in as carl with this password" in said
    assert "another-one" not in said
    text = STACK.read_text().replace("name: team", "name: other")
    (tmp_path / "bucket.yaml").write_text(text.replace("s3://zenml", "s3://nowhere"))
    assert "there is no bucket or folder s3://nowhere" in refused(carl, tmp_path / "bucket.yaml")
    (tmp_path / "key.yaml").write_text(text.replace("{{s3.key}}", "{{mlflow.username}}"))
    assert "one may not write, read and remove files there" in refused(carl, tmp_path / "key.yaml")


@pytest.fixture(scope="module")
def trained(anna, ben):
    """A run of each that learns, begun at the same moment, of one experiment and one registered model."""
    learning_home(anna)
    learning_home(ben)
    settings = ["--set", "promotion.approval=none", "--set", "tracking={trace_rollouts: 1}"]
    runs = at_once(
        lambda: anna.rlft("run", str(LEARNS), *ON, *settings, "--name", "annas"),
        lambda: ben.rlft("run", str(LEARNS), *ON, *settings, "--name", "bens", "--set", "seed=1"),
    )
    for run in runs:
        assert run.code == 0, run.output
    return runs


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
    assert (change["version"], change["by"], change["verified"]) == ("1", first, True)  # as MLflow's server knows them
    decided = (anna if first == "ben" else ben).rlft("promote", second, *ON)
    assert decided.code in (0, 7), decided.output  # better than the first, or not
    assert COMPARED in " ".join(decided.output.split())


def test_everybody_sees_the_runs_of_all(trained, anna, ben):
    listed = {run["name"]: run for run in ben.json("runs", *ON)}
    assert {name: run["by"] for name, run in listed.items()} == {"annas": "anna", "bens": "ben"}
    assert {run["version"]["version"] for run in listed.values()} == {"1", "2"}
    anns = trained[0].summary
    assert listed["annas"]["difference"] == anns["difference"]  # her summary is not in his home
    assert not list((ben.folder / ".rlft" / "runs").glob(f"{anns['pipeline_run_id']}.json"))
    shown = ben.rlft("show", "annas", "0", *ON)
    assert shown.code == 0, shown.output
    assert f"`rlft show annas 0 0 {' '.join(ON)}` shows" in " ".join(shown.output.split())
    assert ben.rlft("report", "annas", *ON).code == 0
    assert "annas" in (ben.folder / "annas.html").read_text()
    assert ben.rlft("compare", "annas", "bens", *ON).code == 0


@pytest.fixture(scope="module")
def resumed(anna, ben):
    """A run that is killed, whose store then denies, is gone and is slow, and which each of them resumes."""
    killed = anna.rlft("run", str(TINY), *ON, *SHORT, "--name", "hard", kill_at="steps.train_grpo:train_round:1")
    assert killed.code == -9, killed.output
    early = ben.rlft("resume", "hard", *ON)
    age(anna.servers, "hard", SILENT_SECONDS)
    said = [early]
    for who, fault in ((ben, "denied PUT POST"), (anna, "gone")):
        target = f"steps.train_grpo:train_round:1={fault}={anna.servers.fault}"
        said.append(who.rlft("resume", "hard", *ON, kill_at=target))
        anna.servers.fault.write_text("")
    anna.servers.fault.write_text("slow")
    said.append(ben.rlft("resume", "hard", *ON))
    anna.servers.fault.write_text("")
    return said


def age(servers, run: str, seconds: float) -> None:
    """Let ZenML have seen the run for the last time so long ago: waiting would take as long."""
    shift = f"-{seconds:.0f} seconds"
    with sqlite3.connect(servers.folder / "zenml.db") as database:
        (run_id,) = database.execute("SELECT id FROM pipeline_run WHERE name = ?", (run,)).fetchone()
        for table, column in (("pipeline_run", "id"), ("step_run", "pipeline_run_id")):
            times = ["created", "start_time", "end_time", *(["latest_heartbeat"] if table == "step_run" else [])]
            earlier = ", ".join(f"{each} = strftime('%Y-%m-%d %H:%M:%f', {each}, '{shift}')" for each in times)
            database.execute(f"UPDATE {table} SET {earlier} WHERE {column} = ?", (run_id,))


def test_a_killed_run_of_another_is_resumed_once_it_is_silent_and_through_every_fault_of_the_store(resumed, anna, ben):
    early, denied, gone, done = ((each.code, " ".join(each.output.split())) for each in resumed)
    assert early[0] == 2
    assert re.search(
        r"hard is still going on what to do: wait for it. It was begun elsewhere, and last seen \d+ s ago", early[1]
    )
    for (code, said), words in (
        (denied, "could not be written: Access Denied what to do: let this user write there"),
        (gone, "store"),  # what ZenML has asked for itself is said in other words
    ):
        assert code == 1, said
        assert words in said, said
        assert "`rlft resume" in said
        assert "Traceback" not in said
        assert "unexpected error" not in said
    assert done[0] == 0, done[1]
    [run] = [each for each in ben.json("runs", *ON) if each["name"] == "hard"]
    assert (len(run["attempts"]), run["status"], run["by"]) == (4, resumed[-1].summary["status"], "anna")
    assert len(ben.json("show", "hard", "0", *ON)) == 32  # every rollout is there, once
    again = anna.rlft("resume", "hard", *ON)
    assert (again.code, "has finished" in again.output) == (2, True), again.output


def test_a_policy_of_half_a_gigabyte_is_stored_in_pieces(ben):
    measured = ben.code(_LARGE, timeout=600)
    assert measured.returncode == 0, measured.stderr[-3000:]
    stored, loaded = map(float, measured.stdout.split()[-2:])
    assert stored < 300, f"{stored} MB more while 500 MB are stored"
    assert loaded < 300, f"{loaded} MB more while 500 MB are loaded"


# Prints by how many MB the process grows while a folder with a file of 500 MB is stored, and while it is loaded.
_LARGE = """
import threading, time
from pathlib import Path
import psutil
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
quieten(False)
connect(find_home(), "team")
from zenml.client import Client
from materializers.policy import PolicyMaterializer
from rlft.policy import PolicyFolder
store = Client().active_stack.artifact_store
folder = Path("large")
folder.mkdir()
with (folder / "model.safetensors").open("wb") as file:
    file.truncate(500_000_000)
def grown(call):
    own, most, ended = psutil.Process(), [], threading.Event()
    before = own.memory_info().rss
    def watch():
        while not ended.wait(0.02):
            most.append(own.memory_info().rss)
    threading.Thread(target=watch).start()
    found = call()
    ended.set()
    return (max(most) - before) / 1e6, found
materializer = PolicyMaterializer("s3://zenml/large", store)
stored, _ = grown(lambda: materializer.save(PolicyFolder(folder)))
loaded, back = grown(lambda: materializer.load(PolicyFolder))
assert (back.path / "model.safetensors").stat().st_size == 500_000_000
store.rmtree("s3://zenml/large")
print(stored, loaded)
"""


def test_no_password_is_left_in_a_home_or_in_what_the_servers_log(trained, resumed, anna, ben):
    places = [each.folder / ".rlft" for each in (anna, ben)] + sorted(anna.servers.folder.glob("*.log"))
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        for secret in (PASSWORD, VALUES["S3_SECRET"]):
            assert secret.encode() not in content, file


NOT_RUN = ("cp", "docker", "export", "make")  # there is no Docker here; `tests/test_compose.py` reads what it would do


def test_every_command_of_the_guide_is_one_that_was_given_here(trained, resumed):
    del trained, resumed
    page = (ROOT / "docs" / "guide" / "team.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(commands) > 15
    for command in commands:
        if command[0] not in NOT_RUN:
            assert any(shape(command) <= shape(given) for given in Member.typed if begins_alike(command, given)), (
                command
            )


def shape(command: list[str]) -> set[str]:
    """The program of a command, and its options without their values."""
    return {command[0], *(word.split("=")[0] for word in command[1:] if word.startswith("-"))}


def begins_alike(command: list[str], other: list[str]) -> bool:
    """Whether two commands have the same words up to what a person chooses."""
    count = {"zenml": 2 if command[1] == "login" else 3, "curl": 1}.get(command[0], 2)
    return command[:count] == other[:count]

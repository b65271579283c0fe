"""What a team's runs do when they are killed, and when the store denies, is full, is gone or is slow.

It takes many minutes.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.aged import age
from tests.e2e.conftest import TINY
from tests.team.users import ON

pytestmark = [pytest.mark.timeout(7200), pytest.mark.slow]
SHORT = ("--set", "seed=5", "--set", "controls=[]", "--set", "training.rounds=1")


@pytest.fixture(scope="module")
def resumed(anna, ben):
    """A run that is killed, whose store then denies, fills up, is gone and is slow, and which each of them resumes."""
    killed = anna.rlft("run", str(TINY), *ON, *SHORT, "--name", "hard", kill_at="rlft.training.job:train_round:1")
    assert killed.code == -9, killed.output
    early = ben.rlft("resume", "hard", *ON)
    age(anna.servers.folder / "zenml.db")
    said = [early]
    for who, fault in ((ben, "denied PUT POST"), (anna, "full PUT POST 2"), (anna, "gone")):
        target = f"rlft.training.job:train_round:1={fault}={anna.servers.fault}"
        said.append(who.rlft("resume", "hard", *ON, kill_at=target))
        anna.servers.fault.write_text("")
    anna.servers.fault.write_text("slow")
    said.append(ben.rlft("resume", "hard", *ON))
    anna.servers.fault.write_text("")
    return said


def test_a_killed_run_of_another_is_resumed_once_it_is_silent_and_through_every_fault_of_the_store(resumed, anna, ben):
    early, denied, full, gone, done = ((each.code, " ".join(each.output.split())) for each in resumed)
    assert early[0] == 2
    assert re.search(
        r"hard is still going on what to do: wait for it. It was begun elsewhere, and last seen \d+ s ago", early[1]
    )
    for (code, said), words in (
        (denied, "could not be written: Access Denied what to do: let this user write there"),
        (full, "Storage backend has reached its minimum free space"),  # said by ZenML or by rlft, whoever writes then
        (gone, "store"),  # what ZenML has asked for itself is said in other words
    ):
        assert code == 1, said
        assert words in said, said
        assert "`rlft resume" in said
        assert "Traceback" not in said
        assert "unexpected error" not in said
    assert done[0] == 0, done[1]
    [run] = [each for each in ben.json("runs", *ON) if each["name"] == "hard"]
    assert (len(run["attempts"]), run["status"], run["by"]) == (5, resumed[-1].summary["status"], "anna")
    assert len(ben.json("show", "hard", "0", *ON)) == 32  # every rollout is there, once
    again = anna.rlft("resume", "hard", *ON)
    assert (again.code, "has finished" in again.output) == (2, True), again.output


def test_a_run_whose_zenml_server_dies_names_the_command_that_goes_on_and_that_does(anna):
    server = anna.servers.zenml_server
    run = ("run", str(TINY), *ON, *SHORT, "--set", "seed=6", "--name", "lost")
    lost = anna.rlft(*run, kill_at=f"rlft.training.job:train_round:1=kill={server.pid}")
    server.start()
    said = " ".join(lost.output.split())
    assert lost.code == 1, said
    assert f"error {server.address}: ZenML's server does not answer (ConnectionError)" in said
    assert "then `rlft resume lost --stack team`" in said
    assert "unexpected error" not in said
    assert "Traceback" not in said
    assert lost.summary["error"].startswith(f"{server.address}: ZenML's server does not answer")
    done = anna.rlft("resume", "lost", *ON)
    assert done.code == 0, done.output
    assert len(anna.json("show", "lost", "0", *ON)) == 32  # the rollouts of the round, sampled once


def test_a_policy_of_a_gibibyte_is_stored_in_pieces_whole_or_not_at_all(ben):
    measured = ben.code(_LARGE, str(ben.servers.fault), timeout=3000)
    assert measured.returncode == 0, measured.stderr[-3000:]
    found = json.loads(measured.stdout.splitlines()[-1])
    assert "minimum free space" in found["refused"]  # the store was full after three of its pieces
    assert found["left"] == []
    assert found["stored"] < 300, f"{found['stored']} MB more while 1074 MB are stored"
    assert found["loaded"] < 300, f"{found['loaded']} MB more while 1074 MB are loaded"
    assert found["same"]


# Prints by how many MB the process grows while a folder with a file of 1 GiB is stored, and while it is loaded; before,
# what is said and left when the store is full in the middle.
_LARGE = """
import hashlib, json, sys, threading
from pathlib import Path
import psutil
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
quieten(False)
connect(find_home(), "team")
from zenml.client import Client
from materializers.policy import PolicyMaterializer
from rlft.errors import StorageError
from rlft.policy import PolicyFolder
fault, store, place = Path(sys.argv[1]), Client().active_stack.artifact_store, "s3://zenml/large"
folder = Path("large")
folder.mkdir()
name = "model.safetensors"
with (folder / name).open("wb") as file:
    for part in range(1024):
        file.write(part.to_bytes(4, "big") * (1 << 18))  # no two MiB of it are alike
def hash_of(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
def grown(call):
    own, most, ended = psutil.Process(), [], threading.Event()
    before = own.memory_info().rss
    def watch():
        while not ended.wait(0.02):
            most.append(own.memory_info().rss)
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        found = call()
    finally:
        ended.set()
        watching.join()
    return (max(most) - before) / 1e6, found
materializer, found = PolicyMaterializer(place, store), {"refused": ""}
fault.write_text("full PUT 3")
try:
    materializer.save(PolicyFolder(folder))
except StorageError as full:
    found["refused"] = str(full)
finally:
    fault.write_text("")
found["left"] = [str(each) for _, _, files in store.walk(place) for each in files]
found["stored"], _ = grown(lambda: materializer.save(PolicyFolder(folder)))
found["loaded"], back = grown(lambda: materializer.load(PolicyFolder))
found["same"] = hash_of(back.path / name) == hash_of(folder / name)
store.rmtree(place)
print(json.dumps(found))
"""

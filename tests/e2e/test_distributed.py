"""A run that two trainers train: the policies of one process, and a trainer that is lost costs the round alone."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import TINY, Home
from tests.e2e.interrupts import start_cold
from tests.e2e.test_replay import printed
from tests.needs import need_ray
from tests.rlft.training.distributed.real_cluster import running

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow, pytest.mark.long]
TWO = "distributed={engine: ray, trainers: 2, timeout_seconds: 300}"


def rounds(home, run_id):
    """Hashes of a run's policies by round."""
    return [home.steps(run_id)[f"train_grpo_r{number:03d}"]["weights"] for number in range(2)]


SHORT = ("--set", "training.rounds=2", "--set", "controls=[]")


@dataclass(frozen=True)
class OfCluster(Home):
    """A home whose runs know the token of a cluster."""

    token: Path

    def environment(self) -> dict[str, str]:
        return super().environment() | {"RAY_AUTH_TOKEN_PATH": str(self.token)}


@pytest.fixture(scope="module")
def whole(make_home):
    """A run that two trainers have trained, in a home of its own: another one there would take its rounds from it."""
    need_ray()
    home = make_home("whole")
    result = home.rlft("run", str(TINY), *SHORT, "--set", TWO, "--name", "whole")
    assert result.code == 0, result.output
    return home, result


def check_goes_on(home, whole, resumed):
    """A resumed run has the policy of the round that was kept, and trained on every rollout once."""
    assert resumed.code == 0, resumed.output
    kept = rounds(home, resumed.summary["pipeline_run_id"])[0]
    assert kept == rounds(whole[0], whole[1].summary["pipeline_run_id"])[0]
    assert resumed.summary["ledger"] == whole[1].summary["ledger"]


def test_a_lost_trainer_costs_its_round_and_another_number_goes_on(whole, make_home):
    home = make_home("distributed")
    done = home.module("tests.e2e.lost_trainer", "2", "run", str(TINY), *SHORT, "--set", TWO, "--name", "lost")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "of 2 (process " in said
    assert "has died" in said
    assert "`rlft resume lost` goes on with the run from its last finished round" in said
    resumed = home.rlft("resume", "lost", "--trainers", "1")
    check_goes_on(home, whole, resumed)
    assert trained_by(home, resumed.summary["pipeline_run_id"], 1) is None  # the run's own process
    assert trained_by(whole[0], whole[1].summary["pipeline_run_id"], 1)["trainers"] == 2
    there = psutil.process_iter(["cmdline", "cwd"])
    left = [" ".join(each.info["cmdline"] or []) for each in there if each.info["cwd"] == str(home.folder)]
    assert not [line for line in left if "raylet" in line]  # of this run: others may train in Ray, too


def test_two_train_while_the_next_round_is_sampled_and_a_lost_one_costs_its_round(make_home):
    need_ray()
    lagged = ("run", str(TINY), *SHORT, "--set", TWO, "--set", "training.lag=1", "--name", "lagged")
    home = make_home("lagged")
    whole = home.rlft(*lagged)
    assert whole.code == 0, whole.output
    assert whole.summary["ledger"]["ages"] == {"0": 32, "1": 32}
    run_id = whole.summary["pipeline_run_id"]
    assert [trained_by(home, run_id, number)["trainers"] for number in range(2)] == [2, 2]
    is_beside = home.query(f"""
steps = client.get_pipeline_run("{run_id}").steps
trained, sampled = (client.get_run_step(steps[name].id) for name in ("train_grpo_r000", "generate_rollouts_r001"))
print(json.dumps(sampled.start_time < trained.end_time))
""")
    assert is_beside
    other = make_home("lagged_lost")
    lost = other.module("tests.e2e.lost_trainer", "2", *lagged)
    assert lost.returncode == 1, lost.stdout + lost.stderr
    assert "trainer 2 of 2 (process " in lost.stdout + lost.stderr
    resumed = other.rlft("resume", "lagged")
    assert resumed.code == 0, resumed.output
    assert rounds(other, resumed.summary["pipeline_run_id"]) == rounds(home, run_id)
    assert resumed.summary["ledger"] == whole.summary["ledger"]


def test_a_run_that_gets_sigterm_leaves_nothing_of_ray(make_home):
    need_ray()
    home = make_home("terminated")
    process = start_cold(home, "run", str(TINY), *SHORT, "--set", TWO, "--name", "terminated")
    try:
        known, limit = set[int](), time.monotonic() + 600
        while not (folders := folders_of(known)) or not any(
            folder.glob("r/session_*/logs/raylet*") for folder in folders
        ):
            assert process.poll() is None, (home.folder / "output").read_text()
            assert time.monotonic() < limit
            known |= {child.pid for child in process.children(recursive=True)}
            time.sleep(0.2)
        known |= {child.pid for child in process.children(recursive=True)}
        process.terminate()
        assert process.wait(timeout=120) == 143
    finally:
        if process.poll() is None:
            process.kill()
    assert "`rlft resume terminated` goes on" in (home.folder / "output").read_text()
    assert folders_of(known) == []
    assert [pid for pid in known if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"] == []


def folders_of(pids):
    """The folders for Ray of these processes."""
    return [folder for pid in pids for folder in Path("/tmp").glob(f"rlft-ray-*-{pid}-*")]


def test_a_run_that_one_process_has_begun_goes_on_with_two(make_home):
    need_ray()
    home = make_home("two")
    home.rlft("run", str(TINY), *SHORT, "--name", "alone", kill_at="rlft.training.job:train_round:2")
    # It has no section `distributed`; that is made, and then looked at as before a run.
    refused = home.rlft("resume", "alone", "--trainers", "999")
    assert refused.code == 2, refused.output
    assert "999 trainers need a core each" in " ".join(refused.output.split())
    done = home.rlft("resume", "alone", "--trainers", "2")
    assert done.code == 0, done.output
    assert trained_by(home, done.summary["pipeline_run_id"], 1)["trainers"] == 2
    curve = home.query(f"""
history = mlflow_client.get_metric_history("{done.summary["mlflow_run_id"]}", "perf/trainers")
print(json.dumps([[point.step, point.value] for point in history]))
""")
    assert curve == [[1, 1.0], [2, 2.0]]


def test_a_round_does_not_depend_on_how_long_its_trainers_are_waited_for(whole):
    home, _ = whole
    result = home.rlft("run", str(TINY), *SHORT, "--set", TWO.replace("300", "200"), "--name", "waits")
    assert result.code == 0, result.output
    steps = home.steps(result.summary["pipeline_run_id"])
    assert [steps[f"train_grpo_r{number:03d}"]["status"] for number in range(2)] == ["cached"] * 2


def test_a_round_is_trained_again_by_two(whole):
    home, _ = whole
    done = printed(home, "retrain", "whole", "--from-round", "0", "--set", "training.learning_rate=2e-3")
    assert home.steps(done["pipeline_run_id"])["train_grpo_r000"]["status"] == "completed"
    assert trained_by(home, done["pipeline_run_id"], 0)["trainers"] == 2


def trained_by(home, run_id, number):
    """What the step of a round was told of those who train it together."""
    return home.query(f"""
[step] = client.list_run_steps(pipeline_run_id="{run_id}", name="train_grpo_r{number:03d}", size=1)
print(json.dumps(client.get_run_step(step.id).config.parameters.get("distributed")))
""")


def test_a_lost_machine_of_a_cluster_costs_its_round(whole, make_home, tmp_path):
    (token := tmp_path / "token").write_text(secrets.token_hex(32))
    home = OfCluster(make_home("joined").folder, token)
    with running(token) as cluster:
        # Found within 20 s by Ray, and by the run when the trainer there does not answer.
        run_and_lose(home, cluster["raylets"][1], cluster["address"], "machine")
        check_goes_on(home, whole, home.rlft("resume", "machine", "--trainers", "1"))  # a core is left


def test_a_lost_head_of_a_cluster_costs_its_round_once_it_is_back(whole, make_home, tmp_path):
    (token := tmp_path / "token").write_text(secrets.token_hex(32))
    home = OfCluster(make_home("headless").folder, token)
    with running(token) as cluster:
        address = cluster["address"]
        said = run_and_lose(
            home,
            f"{cluster['head']}:head",
            address,
            "headless",
            dies="the head of Ray, or the process that uses it, has died",
        )
        assert "that of the cluster's head, is up" in said
    too_early = home.rlft("resume", "headless")
    assert too_early.code == 2, too_early.output
    assert f"the cluster at {address} cannot be joined" in " ".join(too_early.output.split())
    with running(token, int(address.rpartition(":")[2])) as cluster:
        assert cluster["address"] == address
        check_goes_on(home, whole, home.rlft("resume", "headless"))


def run_and_lose(home, lost, address, name, dies="has died"):
    """A run in a cluster ends with the way on when a process of that is killed before its second round."""
    joined = TWO.replace("}", f", address: '{address}'}}")
    call = ("run", str(TINY), *SHORT, "--set", joined, "--name", name)
    done = home.module("tests.e2e.lost_trainer", f"2:{lost}", *call)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1, said
    assert dies in said
    assert f"`rlft resume {name}` goes on with the run from its last finished round" in said
    assert "Traceback" not in said
    return said

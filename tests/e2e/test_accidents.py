"""What goes wrong in the middle: rewards that fail, models that do not load, full disks, Ctrl-C, hopeless tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import ROOT, TINY

pytestmark = pytest.mark.timeout(1200)

FLAKY = """
import rlft

class Flaky(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        text = completion.text.strip()
        if text.endswith("1"):
            raise RuntimeError("the judge is down")
        if text.endswith("2"):
            return {"correct": float("nan")}
        return {"correct": float(text == ground_truth)}
"""


@pytest.mark.slow
def test_a_reward_that_fails_is_an_error_in_the_ledger_and_never_a_zero(make_home):
    home = make_home("flaky")
    (home.folder / "flaky.py").write_text(FLAKY)
    options = ["--set", "environment.name=flaky.py:Flaky", "--set", "reward.audit=false", "--set", "training.rounds=1"]
    result = home.rlft("run", str(TINY), *options, "--set", "evaluation.sft_control=false")
    assert result.code == 0, result.output
    wrong = home.query(f"""
run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
rollouts = run.steps["generate_rollouts_r000"].outputs["rollouts"][0].load()
rewards = run.steps["score_rewards_r000"].outputs["rewards"][0].load()
fates = run.steps["train_grpo_r000"].outputs["train_report"][0].load().fates
ends = {{r.rollout_id: r.messages[-1]["content"].strip()[-1:] for r in rollouts}}
print(json.dumps([[ends[r.rollout_id], r.total, str(r.error), fates[r.rollout_id]] for r in rewards]))
""")
    failed = [row for row in wrong if row[0] in ("1", "2")]
    assert len(failed) == result.summary["ledger"]["errored"] > 0
    for end, total, error, fate in failed:
        assert total is None
        assert ("the judge is down" if end == "1" else "nan") in error
        assert fate == "errored:reward"
    assert all(total is not None for end, total, _, _ in wrong if end not in ("1", "2"))


def test_an_audit_that_fails_stops_the_run_before_training(make_home):
    home = make_home("audit")
    (home.folder / "generous.py").write_text(
        "import rlft\n\nclass Generous(rlft.BaseEnv):\n"
        "    async def compute_reward(self, completion, ground_truth):\n        return {'kind': 1.0}\n"
    )
    result = home.rlft("run", str(TINY), "--set", "environment.name=generous.py:Generous")
    assert result.code == 2
    assert "the reward pays wrong answers" in result.output
    assert "Traceback" not in result.output
    assert result.summary["status"] == "failed"
    assert result.summary["rounds"] == 0


def test_a_model_that_does_not_load_is_named(make_home):
    home = make_home("model")
    result = home.rlft("run", str(TINY), "--set", "policy={model: no/such-model}")
    assert result.code == 2
    assert "no/such-model" in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_task_that_no_sample_solves_ends_too_hard(make_home):
    home = make_home("hard")
    # random weights do not hit upon a number of four digits or more by chance
    four_digits = ["--set", "tasks.generator_kwargs={min_terms: 2, max_terms: 2, min_digits: 4, max_digits: 4}"]
    result = home.rlft("run", str(TINY), "--set", "warm_start=null", *four_digits)
    assert result.code == 3, result.output
    assert result.summary["status"] == "too_hard"
    assert result.summary["promotion"]["promoted"] is False
    assert result.summary["baseline"]["accuracy"] == 0
    assert home.query("print(json.dumps(len(mlflow_client.search_registered_models())))") == 0


@pytest.mark.slow
def test_a_task_that_is_solved_ends_already_solved(make_home):
    home = make_home("solved")
    result = home.rlft("run", str(TINY), "--set", "baseline.already_solved=0.001")
    assert result.code == 4, result.output
    assert result.summary["status"] == "already_solved"


@pytest.mark.slow
def test_numbers_that_explode_stop_training_with_the_last_good_policy(make_home):
    home = make_home("explode")
    options = ["--set", "training.learning_rate=1000.0", "--set", "training.updates_per_round=1"]
    result = home.rlft("run", str(TINY), *options, "--set", "evaluation.sft_control=false")
    assert result.code == 0, result.output
    assert result.summary["status"] == "not_improved"
    assert "round 0" in result.summary["stopped"]
    assert result.summary["ledger"]["trained"] == 0
    assert result.summary["final"] == result.summary["warm_start"]


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_run_goes_on_later(make_home):
    home = make_home("disk")
    script = (
        "import errno, sys\n"
        "from cli.app import app\n"
        "from mlops.home.folder import find_home, quieten\n"
        "from mlops.stacks.stack import connect\n"
        "quieten(False); connect(find_home(), None)\n"
        "import pyarrow.parquet as pq\n"
        "write, count = pq.write_table, [0]\n"
        "def full(*args, **kwargs):\n"
        "    count[0] += 1\n"
        "    if count[0] == 6:\n"
        "        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    return write(*args, **kwargs)\n"
        "pq.write_table = full\n"
        f"app(['run', {str(TINY)!r}])\n"
    )
    done = home.python("-c", script)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "make room" in done.stderr
    assert "Traceback" not in done.stderr
    name = home.query("print(json.dumps(client.list_pipeline_runs()[0].name))")
    resumed = home.rlft("resume", name)
    assert resumed.code == 0, resumed.output


@pytest.mark.slow
def test_ctrl_c_ends_a_run_that_can_be_resumed(make_home):
    home = make_home("interrupted")
    command = [sys.executable, "-m", "tests.e2e.driver", "-", "run", str(TINY), "--set", "training.rounds=200"]
    process = subprocess.Popen(
        command,
        cwd=home.folder,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell ignores it for what it runs in the back
    )
    deadline = time.monotonic() + 120
    store = home.folder / ".rlft" / "zenml"
    while time.monotonic() < deadline and len(list(store.rglob("report.json"))) < 8:
        time.sleep(0.2)
        assert process.poll() is None, process.stdout.read()
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    assert "rlft resume" in output
    assert "Traceback" not in output
    runs = home.query("print(json.dumps([r.status.value for r in client.list_pipeline_runs()]))")
    assert runs == ["failed"]


@pytest.mark.slow
def test_gsm8k_with_a_model_that_knows_no_arithmetic_is_too_hard(make_home, shared_data):
    home = make_home("gsm8k")
    options = {
        "policy.model": shared_data / "model_stories260k" / "hf",
        "tasks.source": "jsonl",
        "tasks.path": shared_data / "gsm8k" / "test.jsonl",
        "baseline.num_tasks": 8,
        "baseline.num_generations": 2,
        "rollout.max_completion_length": 32,
    }
    sets = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
    result = home.rlft("run", str(ROOT / "configs" / "gsm8k.yaml"), *sets)
    assert result.code == 3, result.output
    assert result.summary["status"] == "too_hard"

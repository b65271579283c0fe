"""A run that two trainers train: the policies of one process, and a trainer that is lost costs the round alone."""

from __future__ import annotations

import psutil
import pytest

from tests.e2e.conftest import TINY
from tests.needs import need_ray

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]
TWO = "distributed={engine: ray, trainers: 2, timeout_seconds: 300}"


def rounds(home, run_id):
    """Hashes of a run's policies by round."""
    return [home.steps(run_id)[f"train_grpo_r{number:03d}"]["weights"] for number in range(2)]


def test_a_lost_trainer_costs_its_round_and_another_number_goes_on(make_home):
    need_ray()
    home = make_home("distributed")
    short = ["--set", "training.rounds=2", "--set", "controls=[]", "--set", TWO]
    done = home.module("tests.e2e.lost_trainer", "2", "run", str(TINY), *short, "--name", "lost")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "trainer 2 of 2 (process " in said
    assert "has died" in said
    assert "rlft resume" in said
    resumed = home.rlft("resume", "lost", "--trainers", "1")
    assert resumed.code == 0, resumed.output
    whole = home.rlft("run", str(TINY), *short, "--name", "whole")
    assert whole.code == 0, whole.output
    found, expected = (rounds(home, result.summary["pipeline_run_id"]) for result in (resumed, whole))
    assert found[0] == expected[0]  # the round that two had trained was kept
    assert found[1] != expected[1]  # one rounds otherwise than two
    assert resumed.summary["ledger"] == whole.summary["ledger"]
    left = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    assert not [line for line in left if "rlft-ray-" in line and "raylet" in line]

"""Two real runs side by side."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import TINY

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def test_two_runs_that_differ_in_one_setting(finished, tmp_path):
    whole_home, whole = finished
    home = whole_home.copy(tmp_path / "copy")
    first = whole.summary["pipeline_run_id"]
    # The other run takes its warm start from the cache, and trains one round at another learning rate.
    changes = ("--set", "training.learning_rate=3e-3", "--set", "training.rounds=1")
    other = home.rlft("run", str(TINY), *changes, "--name", "other")
    assert other.code == 0, other.output

    done = home.module("cli", "compare", first, "other", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    name, _ = found["runs"]
    assert found["settings"] == {
        "training.rounds": {name: 3, "other": 1},
        "training.learning_rate": {name: 0.001, "other": 0.003},
    }
    assert (found["code"], found["data"]) == ({}, {})
    assert (found["tasks"], found["left_out"]) == (12, {name: 0, "other": 0})
    assert found["runs"][name]["accuracy"] == pytest.approx(whole.summary["final"]["accuracy"])
    assert found["runs"]["other"]["accuracy"] == pytest.approx(other.summary["final"]["accuracy"])
    for each, summary in ((name, whole.summary), ("other", other.summary)):
        trained = found["training"][each]
        assert (trained["status"], trained["before"]) == (
            summary["status"],
            pytest.approx(summary["difference"]["before"]),
        )
        assert trained["gain"]["mean"] == pytest.approx(summary["difference"]["mean"])
    (pair,) = found["pairs"]
    assert pair["difference"]["mean"] == pytest.approx(
        other.summary["final"]["accuracy"] - whole.summary["final"]["accuracy"]
    )
    assert not pair["stands"]  # twelve tasks are no evidence
    assert found["groups"] == [[name], ["other"]]

    said = " ".join(home.module("cli", "compare", first, "other").stdout.split())
    assert "nobody can say which is better, as setting 1 had one seed and setting 2 had one seed" in said
    refused = home.module("cli", "compare", first, first)
    assert (refused.returncode, f"{name} is given twice" in refused.stderr) == (2, True)

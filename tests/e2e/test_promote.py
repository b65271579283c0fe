"""`rlft promote` decides on a run that is over: nothing is trained, and a refusal changes nothing in the registry."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_a_finished_run_is_decided_on_once_more(finished, tmp_path):
    home, whole = finished[0].copy(tmp_path), finished[1]
    run = whole.summary["pipeline_run_id"]
    refused = home.rlft("promote", run, "--set", "training.rounds=9")
    assert refused.code == 2
    assert "training.rounds cannot be changed" in refused.output
    missing = home.rlft("promote", run, "--set", "promotion.slices=[nope]")
    assert missing.code == 2
    assert "no task of the gate has the column 'nope'" in missing.output
    runs = "print(json.dumps(len(client.list_pipeline_runs())))"
    assert home.query(runs) == 1  # what is refused has begun nothing
    rules = [
        "promotion.suites.off_distribution.margin=0.5",
        "promotion.slices=[generator]",
    ]
    told = home.rlft("promote", run, *(part for rule in rules for part in ("--set", rule)), "--json")
    assert told.code == 7, told.output
    assert "is over: what it has stored is read, and nothing is trained again" in told.output
    found = json.loads(told.output[told.output.index("{\n") : told.output.rindex("}") + 1])
    assert (found["promoted"], found["version"], found["exit_code"]) == (False, "1", 7)
    said = "\n".join(found["reasons"])
    assert "fails: accuracy on off_distribution of trained minus base" in said
    assert "generator=" in said
    assert found["look"] == whole.summary["promotion"]["look"] + 1  # other rules are another look
    again = home.query("""
newest = client.list_pipeline_runs(sort_by="desc:created")[0]
print(json.dumps({name: step.status.value for name, step in newest.steps.items()}))
""")
    assert again["train_grpo_r000"] == again["generate_rollouts_trained"] == "skipped"
    assert again["decide_promotion"] == again["register_policy"] == "completed"

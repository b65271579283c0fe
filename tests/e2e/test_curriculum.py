"""A run whose tasks are drawn by pass rates, and whose wasted groups are replaced."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import TINY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow, pytest.mark.long]

BY_RATES = ["--set", "training.curriculum=pass_rate", "--set", "training.max_num_gen_batches=3", "--name", "by-rates"]
LOOK = """
from mlops.ids import DRAW, PASS_RATES, REWARDS, ROLLOUTS, TRAIN_REPORT
from mlops.home.folder import find_home
from mlops.runs.finding import find_run
from mlops.runs.shared import SharedRun

run = SharedRun(find_home(), find_run("by-rates"))
rounds = []
for name in ("r000", "r001", "r002"):
    draw, rollouts, rewards, report, rates = (run.output(stored, name)
        for stored in (DRAW, ROLLOUTS, REWARDS, TRAIN_REPORT, PASS_RATES))
    rounds.append({
        "drawn": [[task.task_id, task.why] for task in draw.tasks],
        "reserves": [task.task_id for task in draw.reserves],
        "attempted": list(dict.fromkeys(row.task_id for row in rollouts)),
        "rows": [row.rollout_id for row in rollouts], "scored": [row.rollout_id for row in rewards],
        "ledger": report.drawn, "fates": report.fates, "metrics": report.metrics,
        "tokens": sum(int(row.loss_mask.sum()) for row in rollouts),
        "noted": sorted(rates.own), "policy": rollouts.rows[0].policy,
    })
print(json.dumps({"rounds": rounds}))
"""


@pytest.fixture(scope="module")
def drawn(finished, tmp_path_factory):
    """The run by rates: once left alone, and once killed while it replaces groups and resumed."""
    homes = [finished[0].copy(tmp_path_factory.mktemp(name)) for name in ("alone", "killed")]
    alone = homes[0].rlft("run", str(TINY), *BY_RATES)
    assert alone.code == 0, alone.output
    killed = homes[1].rlft("run", str(TINY), *BY_RATES, kill_at="steps.round:sample_groups:2")
    assert killed.code == -9, killed.output
    resumed = homes[1].rlft("resume", "by-rates")
    assert resumed.code == 0, resumed.output
    return homes, [alone.summary, resumed.summary]


def test_the_ledger_says_what_was_drawn_and_thrown_away(drawn):
    (home, _), (summary, _) = drawn
    rounds = home.query(LOOK)["rounds"]
    assert sum(each["metrics"]["dynamic_sampling/resampled_groups"] for each in rounds) > 0
    for each in rounds:
        first = [task for task, _ in each["drawn"]]
        extra = int(each["metrics"]["dynamic_sampling/resampled_groups"])
        assert each["attempted"] == [*first, *each["reserves"][:extra]]
        assert list(each["ledger"]) == each["attempted"]
        assert each["rows"] == each["scored"] == list(each["fates"])
        useless = [task for task, why in each["ledger"].items() if why.endswith("without variance")]
        assert len(useless) == each["metrics"]["dynamic_sampling/thrown_groups"]
        thrown = [key for key, fate in each["fates"].items() if fate == "filtered:no_variance"]
        assert len(thrown) == each["metrics"]["dynamic_sampling/thrown_rollouts"] == 4 * len(useless)
        assert each["metrics"]["completions/sampled_tokens"] == each["tokens"]
        assert each["metrics"]["dynamic_sampling/thrown_tokens"] <= each["tokens"]
    assert summary["ledger"]["sampled"] == sum(len(each["rows"]) for each in rounds)
    assert summary["dynamic_sampling"] == {
        name: sum(each["metrics"][f"dynamic_sampling/{name}"] for each in rounds)
        for name in ("resampled_groups", "thrown_groups", "thrown_rollouts", "thrown_tokens")
    }
    assert rounds[2]["noted"] == sorted({task for each in rounds for task in each["attempted"]})


def test_a_rollout_is_shown_with_why_its_task_was_drawn(drawn):
    (home, _), _ = drawn
    (each, *_) = home.query(LOOK)["rounds"]
    shown = home.rlft("show", "by-rates", "0", "0", "--json")
    assert shown.code == 0, shown.output
    record = json.loads(shown.output)
    assert record["drawn"] == each["ledger"][record["task_id"]]
    assert record["fate"] == each["fates"][record["rollout_id"]]


def test_a_run_that_was_killed_draws_and_ends_the_same(drawn):
    homes, summaries = drawn
    one, other = (home.query(LOOK)["rounds"] for home in homes)
    for here, there in zip(one, other, strict=True):
        same = ("drawn", "reserves", "attempted", "rows", "ledger", "fates", "policy")
        assert {name: here[name] for name in same} == {name: there[name] for name in same}
    steps = [home.steps(summary["pipeline_run_id"]) for home, summary in zip(homes, summaries, strict=True)]
    for name in ("draw_tasks_r002", "generate_rollouts_r002", "note_pass_rates_r002"):
        assert steps[0][name]["outputs"] == steps[1][name]["outputs"]
    assert steps[0]["train_grpo_r002"]["weights"] == steps[1]["train_grpo_r002"]["weights"]
    assert summaries[0]["final"] == summaries[1]["final"]

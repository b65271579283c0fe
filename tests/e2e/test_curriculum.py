"""A run whose tasks are drawn by the pass rates of an earlier one, and whose wasted groups are replaced."""

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
from rlft.curriculum.rates import count_passes

run = SharedRun(find_home(), find_run("by-rates"))
kept = client.list_run_steps(pipeline_run_id=run.id, name="collect_pass_rates", hydrate=True).items[0]
kept = kept.outputs["kept_rates"][0].load()
before = SharedRun(find_home(), find_run(kept.runs[0].name)).output(REWARDS, "r002")
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
counts = {task: list(found) for task, found in count_passes(before).items()}
known = {task: [list(row) for row in rows] for task, rows in kept.attempts.items()}
print(json.dumps({"rounds": rounds, "kept": known, "counts": counts,
    "runs": [[each.name, each.rounds, each.same_start] for each in kept.runs]}))
"""

ASK = """
import dataclasses, logging
from datetime import timedelta
from types import SimpleNamespace
from mlops.ids import REWARDS, ROLLOUTS
from mlops.home.folder import find_home
from mlops.runs.finding import find_run
from mlops.runs.shared import SharedRun
from mlops.runs.store import stored_config
from steps.collect_pass_rates import Sought, kept_rates
from mlops.runs.results import stored_tasks
from pipelines.stages import Stages

earlier = SharedRun(find_home(), find_run("{run}"))
config = stored_config(earlier.config, "{run}")
prints = Stages.of(config).fingerprints
start = earlier.output(ROLLOUTS, "r000").rows[0].policy
sought = Sought("tiny", prints.harness, prints.reward, config.reward.weights, config.reward.full, start)
tasks = stored_tasks(earlier)

def later(hours=1, name="later", parent=""):
    labels = {{"name": name, "parent": parent}}
    return SimpleNamespace(
        created=find_run("{run}").end_time + timedelta(hours=hours), original_run=None, name=name,
        config=SimpleNamespace(parameters={{"labels": labels}}))

def ask(run=later(), tasks=tasks, count=3, **changes):
    kept = kept_rates(run, dataclasses.replace(sought, **changes), tasks, count)
    return [len(kept.runs), len(kept.attempts), [each.same_start for each in kept.runs]]
"""


@pytest.fixture(scope="module")
def drawn(finished, tmp_path_factory):
    """The run by rates after a uniform one: once left alone, and once killed while it replaces groups and resumed."""
    homes = [finished[0].copy(tmp_path_factory.mktemp(name)) for name in ("alone", "killed")]
    alone = homes[0].rlft("run", str(TINY), *BY_RATES)
    assert alone.code == 0, alone.output
    killed = homes[1].rlft("run", str(TINY), *BY_RATES, kill_at="steps.generate_groups:sample_groups:2")
    assert killed.code == -9, killed.output
    resumed = homes[1].rlft("resume", "by-rates")
    assert resumed.code == 0, resumed.output
    return homes, [alone.summary, resumed.summary]


def test_the_attempts_of_the_earlier_run_are_kept(drawn):
    (home, _), _ = drawn
    found = home.query(LOOK)
    ((_, rounds, same_start),) = found["runs"]
    assert (rounds, same_start) == (3, True)
    # of its last round: round, passes, failures, and which run
    assert all([2, *found["counts"][task], 0] in found["kept"][task] for task in found["counts"])
    whys = dict(found["rounds"][0]["drawn"])
    assert {task for task, why in whys.items() if why == "new"} == {task for task in whys if task not in found["kept"]}
    assert set(whys.values()) <= {"new", "learnability"}
    assert len({*whys.values()}) == 2


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
    for name in ("collect_pass_rates", "draw_tasks_r002", "generate_rollouts_r002", "note_pass_rates_r002"):
        assert steps[0][name]["outputs"] == steps[1][name]["outputs"]
    assert steps[0]["train_grpo_r002"]["weights"] == steps[1]["train_grpo_r002"]["weights"]
    assert summaries[0]["final"] == summaries[1]["final"]


def test_which_attempts_of_an_earlier_run_count(finished, tmp_path):
    home, name = finished[0].copy(tmp_path), finished[1].summary["pipeline_run_id"]
    found = home.query(
        ASK.format(run=name)
        + """
changed = [dataclasses.replace(t, answer="0") if n % 2 else t for n, t in enumerate(tasks.tasks)]
own = later(name=earlier.parameters["labels"]["name"])
print(json.dumps({
    "all": ask(), "none asked for": ask(count=0), "other start": ask(start="another"),
    "changed tasks": ask(tasks=dataclasses.replace(tasks, tasks=tuple(changed))),
    "no longer in train": ask(tasks=dataclasses.replace(tasks, tasks=())),
    "other environment": ask(environment="x"), "other reward": ask(reward="x"), "other full": ask(full=0.5),
    "other weights": ask(weights={"exact": 2.0}), "other experiment": ask(experiment="x"),
    "not over yet": ask(later(hours=-1)), "itself": ask(own)}))
"""
    )
    runs, attempted, same_start = found.pop("all")
    assert (runs, same_start) == (1, [True])
    assert 8 <= attempted <= 24  # three rounds of 8 tasks
    assert found.pop("other start") == [1, attempted, [False]]
    changed = found.pop("changed tasks")
    assert 0 < changed[1] < attempted
    assert found.pop("no longer in train") == [1, 0, [True]]
    assert list(found.values()) == [[0, 0, []]] * 8


def test_damaged_attempts_of_an_earlier_run_are_left_out(finished, tmp_path):
    home, name = finished[0].copy(tmp_path), finished[1].summary["pipeline_run_id"]
    (file,) = (home.folder / ".rlft").glob("**/score_rewards_r001/rewards/**/rewards.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    found = home.query(
        ASK.format(run=name)
        + """
said = []
class Kept(logging.Handler):
    def emit(self, record): said.append(record.getMessage())
logging.disable(logging.NOTSET)
told = logging.getLogger("steps.collect_pass_rates")
told.addHandler(Kept())
told.setLevel(logging.WARNING)
told.propagate = False  # what prints it would print it among the answers
print(json.dumps([ask(), said]))
"""
    )
    assert found[0] == [0, 0, []]
    assert "the pass rates of an earlier run do not count" in found[1][0]

"""A stored rollout as a record and in the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cli import contrasted as contrast
from cli import show as show_cli
from mlops.home.folder import Home
from mlops.ids import ROLLOUTS
from mlops.runs import report as run_report
from mlops.runs import results as diagnosis
from mlops.runs import shared
from mlops.runs.results import ScoredRound, stored_tasks
from mlops.runs.store import LocalRun, RunStore, as_parameter
from mlops.summary.file import keep_summary
from mlops.summary.summary import Difference, Summary
from rlft.config.file import load_config
from rlft.errors import DamagedError, RlftError
from rlft.messages import make_call
from rlft.reporting.terminal import Terminal
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_task, make_task_set, user
from tests.mlops.made import make_run

TINY = Path(__file__).parents[2] / "fixtures" / "configs" / "tiny.yaml"
ABOUT = [
    "A run of reinforcement learning (GRPO) on all weights of a small model from random weights, begun on 2025-01-01. "
    "Its tasks are those of the environment rlft.environments.reasoning_gym:ReasoningGym, from reasoning_gym gcd."
]

CALL = make_call("search", {"query": "moon", "count": 3}, "c")
MESSAGES = (
    user("Where?"),
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "content": "x" * 2000, "name": "search", "tool_call_id": "c"},
    {"role": "assistant", "content": "There \x1b[31m[bold]"},
)
# 4 tokens of prompt; then 2 sampled, 3 told by the tool, 1 sampled
MASK = [False] * 4 + [True, True, False, False, False, True]


def some_round():
    first = make_rollout(
        messages=MESSAGES, turns=2, tool_calls=1, state={"seen": ["moon"]}, stop_reason="length", truncated=True,
        token_ids=np.arange(10, dtype=np.int32), loss_mask=np.asarray(MASK), logprobs=np.zeros(10, np.float32),
    )  # fmt: skip
    failed = make_rollout(sample=1)
    rewards = (make_reward(first, 0.5, parts={"exact": 0.5, "style": None}, answer="There"), make_reward(failed, None))
    fates = {first.rollout_id: "trained"}
    return ScoredRound(
        "r003",
        Rollouts((first, failed)),
        Rewards(rewards, {"exact": 2.0, "style": 0.5}),
        fates,
        {"t0": make_task("t0", split="test")},
        {"t0": "new; without variance"},
    )


def test_a_record_counts_tokens_and_weighs_parts():
    scored = some_round()
    record = scored.record(scored.find("train-0-t0-0"))
    assert json.loads(json.dumps(record)) == record
    assert record["tokens"] == {"prompt": 4, "sampled": 3, "told": 3}
    assert record["reward"]["parts"] == {"exact": 0.5, "style": None}
    assert record["reward"]["weights"] == {"exact": 2.0, "style": 0.5}
    assert (record["fate"], record["stop_reason"], record["truncated"]) == ("trained", "length", True)
    assert [message["role"] for message in record["messages"]] == ["user", "assistant", "tool", "assistant"]
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": {"query": "moon", "count": 3}}}
    assert record["messages"][1]["tool_calls"] == [call]
    assert not {"token_ids", "logprobs", "loss_mask"} & set(record)


def test_a_round_that_was_not_scored_has_no_reward():
    scored = ScoredRound("r000", some_round().rollouts, None, {})
    record = scored.record(scored.find("0"))
    assert (record["reward"], record["fate"], record["drawn"]) == (None, None, None)
    assert [row["total"] for row in scored.rows()] == [None, None]


def test_the_list_has_one_row_each():
    assert list(some_round().rows()) == [
        {"index": 0, "rollout_id": "train-0-t0-0", "prompt": "1+1=", "said": "There \x1b[31m[bold]",
         "right_answer": "2", "split": "test", "total": 0.5, "solved": False, "turns": 2,
         "tool_calls": 1, "tool_errors": 0, "stop_reason": "length", "answer": "There", "error": None},
        {"index": 1, "rollout_id": "train-0-t0-1", "prompt": "1+1=", "said": "2",
         "right_answer": "2", "split": "test", "total": None, "solved": None, "turns": 1,
         "tool_calls": 0, "tool_errors": 0, "stop_reason": "stop", "answer": None,
         "error": "compute_reward: ValueError"},
    ]  # fmt: skip


def test_a_rollout_is_found_by_id_or_place():
    scored = some_round()
    assert scored.find("train-0-t0-1") is scored.find("1")
    with pytest.raises(RlftError, match="did you mean train-0-t0-"):
        scored.find("train-0-t0-7")
    with pytest.raises(RlftError, match="a number from 0 to 1"):
        scored.find("2")


@pytest.fixture
def shown(monkeypatch):
    """What `show_record` prints of the first rollout."""

    def lines(full):
        console = Terminal(width=4000, record=True, file=io.StringIO())
        monkeypatch.setattr(show_cli, "console", console)
        scored = some_round()
        show_cli.show_record(scored.record(scored.find("0")), full=full)
        return [line.rstrip() for line in console.export_text().splitlines()]

    return lines


def test_every_message_stands_under_its_role(shown):
    lines = shown(full=False)
    start = lines.index("user")
    assert lines[start : start + 5] == [
        "user", "  Where?", "assistant, turn 1", "  I look.", '  search(query="moon", count=3)'
    ]  # fmt: skip
    assert lines[start + 5] == "tool search"
    assert lines[start + 6] == "  " + "x" * 1500 + " ... (500 more characters; --full shows them)"
    assert lines[start + 7 : start + 9] == ["assistant, turn 2", "  There \\x1b[31m[bold]"]
    assert "exact  0.5    2" in lines
    assert "style  -      0.5" in lines
    assert "stop           length, truncated" in lines
    assert "tokens         4 prompt, 3 sampled, 3 told" in lines
    assert "fate           trained" in lines
    assert "drawn          new; without variance" in lines
    assert 'state          {"seen": ["moon"]}' in lines


def test_a_rollout_of_a_model_behind_an_address_shows_that_its_tokens_are_not_known(monkeypatch):
    rollout = make_rollout(prompt=[], completion=[])
    record = ScoredRound("model_control", Rollouts((rollout,)), None, {}).record(rollout)
    assert record["tokens"] == {"prompt": 0, "sampled": 0, "told": 0}
    console = Terminal(width=200, record=True, file=io.StringIO())
    monkeypatch.setattr(show_cli, "console", console)
    show_cli.show_record(record, full=False)
    assert "tokens         not known" in console.file.getvalue().splitlines()


def test_nothing_is_cut_when_all_is_asked_for(shown):
    assert "  " + "x" * 2000 in shown(full=True)


def test_files_that_were_removed_are_named_by_the_run_on_a_stack_that_has_them(monkeypatch):
    def load():
        raise DamagedError("this file is gone", where="/home/rollouts/1/rollouts.parquet", run="other", step="other")

    version = SimpleNamespace(load=load, uri="/home/rollouts/1")
    monkeypatch.setattr(shared.SharedRun, "artifact", lambda self, stored, name: version)
    found = SimpleNamespace(name="mine", config=SimpleNamespace(parameters={}))
    with pytest.raises(DamagedError) as caught:
        shared.SharedRun(Home(Path("nowhere")), found).output(ROLLOUTS, "r000")
    said = caught.value
    assert (said.where, said.run, said.step) == (
        "/home/rollouts/1/rollouts.parquet", "mine", "generate_rollouts_r000",
    )  # fmt: skip


ALL = make_task_set(*(make_task(f"t{n}", split=split) for n, split in enumerate(("train", "train", "test", "test"))))
FIT = make_task_set(ALL.tasks[0], ALL.tasks[2])


@pytest.fixture
def store(monkeypatch, tmp_path):
    """Returns a run of the tiny config that has stored {id of a step: value}."""

    def stored(outputs):
        config = as_parameter(load_config(TINY))
        run = RunStore(Home(tmp_path)).start(make_run("run", "mine", config=config), "mine")
        monkeypatch.setattr(LocalRun, "output", lambda self, stored, name: outputs.get(stored.step_id(name)))
        return run

    return stored


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [({}, None), ({"ingest_tasks": ALL}, ALL), ({"ingest_tasks": ALL, "leave_out_tasks": FIT}, FIT)],
)
def test_the_tasks_of_a_run_are_those_that_its_model_can_read(store, outputs, expected):
    assert stored_tasks(store(outputs)) is expected


def test_all_that_is_told_of_a_past_run_is_told_of_the_tasks_that_it_used(store):
    rollouts = Rollouts(tuple(make_rollout(task.id) for task in ALL.split("test")))
    run = store(
        {
            "ingest_tasks": ALL,
            "leave_out_tasks": FIT,
            "generate_rollouts_trained": rollouts,
            "score_rewards_trained": Rewards(tuple(make_reward(row, 1.0) for row in rollouts), {}),
            "evaluate_policy_trained": SimpleNamespace(splits={"test": SimpleNamespace(policy="a policy")}),
            "train_grpo_r000": SimpleNamespace(fates={}),
        }
    )
    compared = contrast.stored_runs([run], "test")["mine"]
    assert (compared.fingerprint, set(compared.asked)) == (FIT.fingerprint, {"t2"})
    assert contrast.prompts_of(compared, ["t2", "t3"]) == {"t2": "1+1="}
    reported = run_report.report_facts(run, Summary(status="improved"))
    assert dict(reported.lineage)["fingerprint of the tasks"] == compared.fingerprint
    assert [(each.task_id, each.right) for each in (*reported.best, *reported.worst)] == [
        ("t2", ALL.by_id()["t2"].answer)
    ]
    assert reported.about == ABOUT
    assert not [command for command in reported.commands if "rlft show" in command]  # the summary has no trained model
    assert diagnosis.stored_history(run).train_tasks == 1


@pytest.mark.parametrize("status", ["improved", "not_improved"])
def test_what_test_shows_is_known_whatever_came_of_it(store, tmp_path, status):
    run = store({})
    assert diagnosis.stored_change(run) is None  # there is no summary
    change = {"before": 0.25, "after": 0.375, "mean": 0.125, "ci_low": 0.0625, "ci_high": 0.1875}
    difference = Difference(metric="accuracy", tasks=400, **change)
    keep_summary(run.folder, Summary(status=status, pipeline_run_id="run", difference=difference))
    assert diagnosis.stored_change(run) == difference

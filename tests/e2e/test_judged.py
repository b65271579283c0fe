"""Runs whose reward asks a judge, a real HTTP server."""

from __future__ import annotations

import json
import signal

import pytest
import yaml

from tests.e2e.conftest import TINY, Result
from tests.rlft.engines.chat_servers import DROP, ChatServer, completion
from tests.rlft.rewards.judges.judged import says

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.long]

LOOK = """
from mlflow.tracking import MlflowClient
from mlops.home.folder import find_home
from mlops.ids import REWARDS
from mlops.home.folder import find_home
from mlops.runs.store import RunStore
from rlft.types import add_judging

run = RunStore(find_home()).called("{name}")
stored = run.output(REWARDS, "r000")
logged = MlflowClient(find_home().tracking_uri).get_run("{id}").data.metrics
print(json.dumps({{
    "stored": add_judging(row.judging for row in stored).metrics(),
    "totals": [row.total for row in stored],
    "logged": {{name: value for name, value in logged.items() if name.startswith("judge/")}},
    "used": {{name: value for name, value in logged.items() if name.startswith("0_result/used/judge")}},
}}))
"""


def spec(server: ChatServer) -> dict:
    return {
        "criteria": {
            "right": {"says": "The number is right.", "grader": {"type": "number"}},
            "kind": {"says": "It is kind.", "grader": {"type": "judge", "question": "Is it kind?"}, "weight": 0.1},
        },
        "judge": {"endpoint": server.url, "model": "small", "prices": {"input": 10.0, "output": 100.0}},
        "cases": [{"attempt": "4", "item": {"answer": "4"}, "at_least": 1, "reason": "The number alone is right."}],
    }


def length_of(body: dict) -> float:
    """A judge that likes short attempts, and says the same of the same one."""
    return round(1 / len(body["messages"][-1]["content"].split("\n", 1)[1]), 6)


def test_what_judges_took_is_told_as_it_is_stored_and_nothing_is_paid_for_twice(make_home):
    home = make_home("judged")

    def answer(body, number):
        return completion(says(score=length_of(body)), usage={"prompt_tokens": 100, "completion_tokens": 10})

    def run(name: str, *more: str) -> Result:
        content = yaml.safe_load(TINY.read_text()) | {"controls": []}
        # A judge that likes short answers is a bad one.
        content["reward"] = {"spec": spec(server), "audit": False}
        del content["environment"]
        (home.folder / "judged.yaml").write_text(yaml.safe_dump(content))
        return home.rlft("run", "judged.yaml", "--name", name, "--set", "training.rounds=1", *more)

    with ChatServer(answer) as server:
        done = run("first")
        assert (done.code, done.summary is None) == (0, False), done.output
        first, asked = done.summary or {}, len(server.bodies)
        found = home.query(LOOK.format(name="first", id=first["mlflow_run_id"]))
        again = run("again", "--no-cache")
        assert (again.code, again.summary is None) == (0, False), again.output
        # All is done once more, and the judge has said it all; it is asked about its canary alone.
        assert len(server.bodies) == asked + 1
        repeated = home.query(LOOK.format(name="again", id=(again.summary or {})["mlflow_run_id"]))
        server._answer = lambda body, number: says(score=0.5)
        changed = run("changed")
        assert len(server.bodies) == asked + 1 + 3  # what differs is asked about thrice, and nothing is scored

    assert found["logged"] == found["stored"]
    assert found["stored"]["judge/calls"] + found["stored"]["judge/cached"] == 32  # a vote for each attempt
    assert found["stored"]["judge/prompt_tokens"] == 100 * found["stored"]["judge/calls"]
    # 100 tokens at 10 for a million and 10 at 100: 0.002 for each call.
    assert found["stored"]["judge/money"] == pytest.approx(0.002 * found["stored"]["judge/calls"])
    stages = first["judges"]
    assert set(stages) == {"canaries", "baseline", "rounds", "validation", "constant_answer", "evaluation"}
    assert (stages["canaries"]["calls"], stages["canaries"]["cached"]) == (5, 0)
    assert stages["rounds"]["calls"] == found["stored"]["judge/calls"]
    calls = sum(stage["calls"] for stage in stages.values())
    assert found["used"] == {
        "0_result/used/judge_calls": calls,
        "0_result/used/judge_tokens": 110 * calls,
        "0_result/used/judge_money": pytest.approx(0.002 * calls),
    }
    assert f"judges: {calls:,} calls" in done.output
    assert repeated["totals"] == found["totals"]
    assert repeated["stored"]["judge/calls"] == repeated["stored"]["judge/money"] == 0
    assert repeated["stored"]["judge/cached"] == 32

    assert changed.code != 0
    said = " ".join(changed.output.split())
    # The attempt and the line that ends it have 1 + 1 + 4 + 16 characters: 1 / 22 is 0.0455.
    assert "does not score as it did: case 1 (The number alone is right.), criterion 'kind' was 0.0455, between" in said
    assert "and is 0.5 what to do:" in said
    assert "set judge.version" in said


def test_a_run_whose_judge_is_gone_stops_and_goes_on_when_it_is_back(make_home):
    home, asked_before = make_home("gone"), 12

    def answer(body, number):
        return says(score=length_of(body)) if number <= asked_before else DROP

    content = yaml.safe_load(TINY.read_text()) | {"controls": []}
    del content["environment"]
    with ChatServer(answer) as server:
        judge = spec(server) | {"judge": {"endpoint": server.url, "model": "small", "attempts": 1}}
        content |= {"reward": {"spec": judge, "audit": False}, "training": content["training"] | {"rounds": 1}}
        (home.folder / "gone.yaml").write_text(yaml.safe_dump(content))
        stopped = home.rlft("run", "gone.yaml", "--name", "gone")
        said = " ".join(stopped.output.split())
        assert (stopped.code, (stopped.summary or {})["status"]) == (1, "failed"), stopped.output
        assert "attempts have no score: JudgeGoneError: the judge did not answer" in said
        server._answer = lambda body, number: says(score=length_of(body))
        ended = home.rlft("resume", "gone")
        assert ended.code == 0, ended.output
    # What was answered is asked again of nobody; a canary is asked anew when a run is resumed.
    answered = [json.dumps(body, sort_keys=True) for body in server.bodies[:asked_before]]
    later = [json.dumps(body, sort_keys=True) for body in server.bodies[asked_before:]]
    assert len(set(answered) & set(later)) <= 1


USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


def test_a_judge_that_changes_after_the_run_stops_resume_rescore_retrain_and_evaluate(make_home):
    home, said = make_home("changed"), {"score": 0.75}

    def config(server: ChatServer, **more) -> None:
        content = yaml.safe_load(TINY.read_text()) | {"controls": ["sft"]}
        content["reward"] = {"spec": {**spec(server), **more}, "audit": True, "full": 1.0}
        content["suite"] = {"scenarios": {"held_out": {}, "again": {"splits": ["validation"]}}}
        content["training"]["rounds"] = 1
        del content["environment"]
        (home.folder / "judged.yaml").write_text(yaml.safe_dump(content))

    with ChatServer(lambda body, number: completion(says(**said), usage=USAGE)) as server:
        config(server)
        first = home.rlft("run", "judged.yaml", "--name", "first", kill_at="rlft.training.job:train_round:1")
        assert first.code == -signal.SIGKILL, first.output

        said["score"] = 0.25
        before = len(server.bodies)
        stopped = home.rlft("resume", "first")
        assert_stopped(stopped, server, before)

        said["score"] = 0.75
        done = home.rlft("resume", "first")
        assert (done.code, done.summary is None) == (0, False), done.output
        judges = (done.summary or {})["judges"]
        assert judges["canaries"]["calls"] == 1
        # What is new: the audit, what the control is validated by, and constant answers, each a stage of its own.
        for stage in ("audit", "controls", "constant_answer"):
            assert judges[stage]["calls"] + judges[stage]["cached"] > 0
            assert judges[stage]["prompt_tokens"] == 100 * judges[stage]["calls"]
        again = ("--from-round", "0", "--set", "training.learning_rate=5e-4")
        for command, expected in (
            (("rescore", "first", "--config", "judged.yaml", "--name", "scored"), {"audit", "rounds", "evaluation"}),
            (("retrain", "first", "--name", "trained", *again), {"validation", "evaluation"}),
            (("evaluate", "first:start", "--suite", "judged.yaml"), {"scenarios"}),
        ):
            said["score"] = 0.25
            before = len(server.bodies)
            assert_stopped(home.rlft(*command), server, before)
            said["score"] = 0.75
            good = home.module("cli", *command, "--json")
            assert good.returncode in (0, 7), good.stdout + good.stderr
            found = json.loads(good.stdout)
            assert found["judges"]["canaries"]["calls"] == 1
            stages = {name for name, stage in found["judges"].items() if stage["calls"] + stage["cached"] > 0}
            assert stages == {"canaries", *expected}


def assert_stopped(result: Result, server: ChatServer, before: int) -> None:
    """It was asked about its canary thrice, and nothing else."""
    assert result.code != 0
    assert "does not score as it did" in " ".join(result.output.split()), result.output
    assert len(server.bodies) == before + 3

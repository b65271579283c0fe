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
        "judge": {"endpoint": server.url, "model": "small"},
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
        assert len(server.bodies) == asked  # all is done once more, and the judge has said it all
        repeated = home.query(LOOK.format(name="again", id=(again.summary or {})["mlflow_run_id"]))

    assert found["logged"] == found["stored"]
    assert found["stored"]["judge/calls"] + found["stored"]["judge/cached"] == 32  # a vote for each attempt
    assert found["stored"]["judge/prompt_tokens"] == 100 * found["stored"]["judge/calls"]
    stages = first["judges"]
    assert set(stages) == {"baseline", "rounds", "validation", "constant_answer", "evaluation"}
    assert stages["rounds"]["calls"] == found["stored"]["judge/calls"]
    calls = sum(stage["calls"] for stage in stages.values())
    assert found["used"] == {
        "0_result/used/judge_calls": calls,
        "0_result/used/judge_tokens": 110 * calls,
    }
    assert f"judges: {calls:,} calls" in done.output
    assert repeated["totals"] == found["totals"]
    assert repeated["stored"]["judge/calls"] == 0
    assert repeated["stored"]["judge/cached"] == 32


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
    # What was answered is not asked again.
    answered = [json.dumps(body, sort_keys=True) for body in server.bodies[:asked_before]]
    later = [json.dumps(body, sort_keys=True) for body in server.bodies[asked_before:]]
    assert set(answered) & set(later) == set()


USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


def test_resume_rescore_retrain_and_evaluate_say_what_judges_took(make_home):
    home = make_home("changed")

    def config(server: ChatServer, **more) -> None:
        content = yaml.safe_load(TINY.read_text()) | {"controls": ["sft"]}
        content["reward"] = {"spec": {**spec(server), **more}, "audit": True, "full": 1.0}
        content["suite"] = {"scenarios": {"held_out": {}, "again": {"splits": ["validation"]}}}
        content["training"]["rounds"] = 1
        del content["environment"]
        (home.folder / "judged.yaml").write_text(yaml.safe_dump(content))

    with ChatServer(lambda body, number: completion(says(score=0.75), usage=USAGE)) as server:
        config(server)
        first = home.rlft("run", "judged.yaml", "--name", "first", kill_at="rlft.training.job:train_round:1")
        assert first.code == -signal.SIGKILL, first.output
        done = home.rlft("resume", "first")
        assert (done.code, done.summary is None) == (0, False), done.output
        judges = (done.summary or {})["judges"]
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
            good = home.module("cli", *command, "--json")
            assert good.returncode in (0, 7), good.stdout + good.stderr
            found = json.loads(good.stdout)
            stages = {name for name, stage in found["judges"].items() if stage["calls"] + stage["cached"] > 0}
            assert stages == expected

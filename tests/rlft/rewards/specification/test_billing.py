"""What judges were asked is on the bill of its stage: from scores and beside them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rlft.config import HarnessConfig, RewardConfig
from rlft.environments.contract.several import Several
from rlft.evaluation.searches.constant import best_constant
from rlft.rewards.audit.rewards import audit_reward
from rlft.rewards.specification.grader import billed, charge
from rlft.types import Judging, TaskSet
from tests.rlft.attempts import audited, make_task
from tests.rlft.engines.chat_servers import ChatServer, completion
from tests.rlft.rewards.judges.judged import KIND, judged_by, says

RIGHT = {"right": {"says": "It is right.", "grader": {"type": "exact"}}}
CASES = [{"attempt": "Lima", "item": {"answer": "Lima", "prompt": "?"}, "at_least": 0, "reason": "It is right."}]
USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


@dataclass(frozen=True)
class Report:
    said: str
    judging: Judging | None = None


def test_a_stage_within_another_has_a_bill_of_its_own():
    @billed
    def inner():
        charge(Judging(calls=2))
        charge(None)
        return Report("inner")

    @billed
    def outer(said):
        charge(Judging(calls=1))
        assert inner().judging == Judging(calls=2)
        charge(Judging(cached=1))
        return Report(said)

    assert outer(said="outer").judging == Judging(calls=1, cached=1)
    assert billed(Report)("nothing").judging is None
    charge(Judging(calls=1))  # outside of a stage nobody counts it


def test_a_stage_that_fails_leaves_no_bill_open():
    @billed
    def fails():
        raise ValueError("no")

    @billed
    def outer():
        with pytest.raises(ValueError, match="no"):
            fails()
        charge(Judging(calls=1))
        return Report("outer")

    assert outer().judging == Judging(calls=1)


def tasks_of(*splits):
    found = [make_task(f"{split}{n}", f"{n} of {split}?", f"answer {n}") for split in splits for n in range(3)]
    return [
        type(task)(task.id, task.environment, task.prompt, task.answer, task.info, task.id[:-1], task.id)
        for task in found
    ]


def server():
    return ChatServer(lambda body, number: completion(says(score=1), usage=USAGE))


def test_the_audit_counts_all_that_it_asks_its_cases_too():
    with server() as asked:
        environment = judged_by(asked, {"criteria": {**RIGHT, **KIND}, "cases": CASES})
        report = audited(tasks_of("train"), environment, timeout_seconds=20)
        assert report.judging is not None
        assert report.judging.calls == len(asked.bodies) > 50
        assert report.judging.prompt_tokens == 100 * len(asked.bodies)
        assert f"A judge was asked {len(asked.bodies)} times for them." in report.text()
        assert report.to_json()["judging"]["calls"] == len(asked.bodies)


def test_of_several_environments_the_audits_add_up():
    with server() as one, server() as other:
        settings = {"criteria": {**RIGHT, **KIND}}
        members = {"a": judged_by(one, settings), "b": judged_by(other, settings)}
        tasks = [
            type(task)(f"{name}/{task.id}", name, task.prompt, task.answer, task.info, "train", task.id)
            for name in members
            for task in tasks_of("train")
        ]
        reward = RewardConfig.model_validate({"members": {name: {} for name in members}})
        report = audit_reward(tasks, Several(members), reward)
        assert report.judging is not None
        assert report.judging.calls == len(one.bodies) + len(other.bodies)
        assert min(len(one.bodies), len(other.bodies)) > 50


def test_without_a_judge_nothing_is_said_of_one():
    environment = judged_by_nobody()
    report = audited(tasks_of("train"), environment, timeout_seconds=20)
    assert report.judging is None
    assert "judg" not in report.text()
    assert "judging" not in report.to_json()


def judged_by_nobody():
    import json

    from rlft.config.environment import PLAIN
    from rlft.config.section import SPECIFICATION
    from rlft.environments.contract.loading import load_environment

    return load_environment(PLAIN, {SPECIFICATION: json.dumps({"criteria": RIGHT})})


def test_the_constant_answer_counts_what_its_candidates_were_asked_for():
    with server() as asked:
        environment = judged_by(asked, {"criteria": {**RIGHT, **KIND}})
        tasks = TaskSet(tuple(tasks_of("train", "validation", "gate", "test")), "f")
        found = best_constant(
            tasks, [], environment, RewardConfig(), HarnessConfig(), metric="reward", splits=["gate", "test"]
        )
        assert found.judging is not None
        # Five candidates at three validation tasks each, and the best one at three tasks of either split.
        assert found.judging.calls + found.judging.cached == 5 * 3 + 6
        assert found.judging.calls == len(asked.bodies)

"""The loop over rounds with `training.lag: 1`: who samples which round, when, and what becomes of what is not used."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines import rounds as module
from pipelines.rounds import run_rounds
from pipelines.stages import Scored
from rlft.evaluation.stopping import TOKENS
from rlft.models.flops import ROLLOUT_FLOPS
from rlft.types import TrainReport
from tests.pipelines.test_rounds import FakeRetention, FakeStages, FakeTracker, artifact, free

SAMPLED, SCORED = 3.0, 1.0  # seconds of each round


class FakeRollouts(list):
    """Rollouts, and how long they took."""

    seconds = SAMPLED


@dataclass
class LaggedStages(FakeStages):
    """Stages that sample while they train, and say in which order they were called."""

    lag: int = 1

    def sample_round(self, policy, tasks, number):
        self.told.append(("sample", number, policy.name))
        took = FakeRollouts([SimpleNamespace(loss_mask=np.ones(100))]), SimpleNamespace(seconds=SCORED)
        return Scored(*(SimpleNamespace(load=lambda each=each: each) for each in took))

    def train(self, policy, reference, scored, number):
        trained, report = super().train(policy, reference, scored, number)
        return trained, artifact(dataclasses.replace(report.load(), age=scored.age))

    def train_beside(self, policy, reference, scored, number, sample):
        self.told.append(("begin", number))
        ahead = sample()
        return *self.train(policy, reference, scored, number), ahead

    def report_unused(self, scored, number):
        self.told.append(("unused", number, scored.age))
        fates = {f"{number}-a": "filtered:training_ended", f"{number}-b": "errored:reward"}
        metrics = {TOKENS: 100.0, ROLLOUT_FLOPS: 7.0, "judge/calls": 5.0, "reward": 0.9}
        return artifact(TrainReport(number, metrics, fates, 0, 0.0, age=scored.age))


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch):
    monkeypatch.setattr(module, "Retention", FakeRetention)


def test_each_round_is_sampled_by_the_policy_before_the_round_before_while_that_is_trained():
    stages, tracker = LaggedStages([0.1, 0.3, 0.4, 0.5], rounds=3), FakeTracker()
    result = run_rounds(stages, None, artifact("start"), tracker, free())
    assert stages.told == [
        ("sample", 0, "start"),
        ("begin", 0),
        ("sample", 1, "start"),
        ("train", 0, "start", 0),
        ("begin", 1),
        ("sample", 2, "policy 1"),
        ("train", 1, "policy 1", 1),
        ("train", 2, "policy 2", 1),  # nothing comes after it
    ]
    assert (result.best.name, result.unused, result.ages()) == ("policy 3", None, {0: 3, 1: 6})
    assert [tracker.logged[step]["ledger/age"] for step in (1, 2, 3)] == [0.0, 1.0, 1.0]


def test_without_lag_each_round_is_sampled_by_the_policy_that_is_trained_on_it():
    stages = FakeStages([0.1, 0.3, 0.4], rounds=2)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    assert stages.told == [
        ("sample", 0, "start"),
        ("train", 0, "start", 0),
        ("sample", 1, "policy 1"),
        ("train", 1, "policy 1", 0),
    ]
    assert result.ages() == {0: 6}


@pytest.mark.parametrize("how", ["undone", "plateau", "monitor", "budget"])
def test_what_was_sampled_ahead_when_training_ends_is_counted_and_not_trained_on(how):
    stages = LaggedStages([0.1, 0.3, 0.3, 0.3, 0.3], rounds=9, patience=1 if how == "plateau" else 0)
    stages.stop_in = 1 if how == "undone" else None
    watch: Any = lambda rounds, scored: "monitor a: b" if how == "monitor" and len(rounds.reports) == 2 else ""  # noqa: E731
    account = free(tokens=150) if how == "budget" else free()  # nobody knows what a round takes when 1 is sampled
    tracker = FakeTracker()
    result = run_rounds(stages, None, artifact("start"), tracker, account, watch=watch)
    done = len(result.reports)
    assert done == {"budget": 1}.get(how, 2)
    assert result.stopped.startswith({"undone": "round 1: loss nan", "monitor": "monitor a"}.get(how, how))
    if how == "budget":
        said = "budget: 200 of 150 tokens are spent, 100 of them on the round that was sampled ahead"
        assert result.stopped == said
        assert result.tokens() == 200
    assert stages.told[-1] == ("unused", done, 1)
    assert not any(each[:2] == ("train", done) for each in stages.told)
    # each round that was trained has 3 rollouts, one of each fate
    assert result.counts() == {"sampled": 3 * done + 2, "trained": done, "filtered": done + 1, "errored": done + 1}
    assert (result.tokens(), result.ages()) == (100 * (done + 1), {0: 3} if done == 1 else {0: 3, 1: 3})
    assert result.flops() == 7.0
    # What it cost is logged; its reward is not, as no training has begun with it.
    counts = {"ledger/sampled": 2, "ledger/trained": 0, "ledger/filtered": 1, "ledger/errored": 1, "ledger/age": 1}
    assert tracker.logged[done + 1] == {TOKENS: 100, ROLLOUT_FLOPS: 7, "judge/calls": 5, **counts}


def test_a_round_that_the_budget_has_no_room_for_is_not_sampled_ahead():
    stages = LaggedStages([0.1] * 9, rounds=9, validate_every=9)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free(tokens=350))
    # Round 1 begins with 100 spent: itself and round 2 make it 300. Round 2 begins with 200, and 400 would be too many.
    assert [each[1] for each in stages.told if each[0] == "sample"] == [0, 1, 2]
    assert (len(result.reports), result.unused) == (3, None)
    assert result.stopped == "budget: 200 of 350 tokens are spent, and two more rounds would take up to 200"


def test_what_goes_on_at_the_same_time_is_not_counted_twice():
    stages, tracker, account = LaggedStages([0.1, 0.3, 0.4, 0.5], rounds=3), FakeTracker(), free()
    run_rounds(stages, None, artifact("start"), tracker, account)
    # A round trains for 2 s, beside which 3 + 1 s of the next are sampled and scored; the last trains alone. The fakes
    # of the first round say nothing of its own sampling.
    assert account.seconds == pytest.approx(4 + 4 + 2, abs=0.5)
    assert tracker.logged[3]["perf/orchestration_seconds"] == pytest.approx(-2, abs=0.5)

"""The loop over rounds with fakes for the steps: which policy is best, when training ends, what is logged."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mlops.summary.summary import Ledger, Summary
from pipelines import rounds as module
from pipelines.observer import Attempt, Observer
from pipelines.rounds import run_rounds
from pipelines.stages import Scored
from rlft.config.training import BudgetConfig
from rlft.evaluation.stopping import TOKENS, Account
from rlft.reporting.bars import Stage
from rlft.types import Evaluation, EvaluationReport, Interval, TrainReport


def artifact(value: Any) -> SimpleNamespace:
    """What a step returns: something with `.load()`."""
    return SimpleNamespace(load=lambda: value, uri="", name=str(value))


@dataclass
class FakeStages:
    """Stages that score what they are told: one validation accuracy after another."""

    scores: list[float]
    rounds: int
    patience: int = 0
    validate_every: int = 1
    stop_in: int | None = None
    errors_at: tuple[float, ...] = ()
    trained: list[Any] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)
    lag: int = 0
    told: list[Any] = field(default_factory=list)

    draws = False

    @property
    def config(self):
        return SimpleNamespace(
            training=SimpleNamespace(rounds=self.rounds, curriculum="uniform", max_num_gen_batches=1, lag=self.lag),
            evaluation=SimpleNamespace(metric="accuracy", validate_every=self.validate_every, patience=self.patience),
            tracking=SimpleNamespace(trace_every=0, trace_rollouts=1),
            policy=SimpleNamespace(keep=None),
            chosen_by="accuracy",
        )

    @contextmanager
    def show(self, name):
        self.shown.append(name)
        yield lambda *report: self.shown.append(report)

    def sample_round(self, policy, tasks, number):
        self.told.append(("sample", number, policy.name))
        return Scored(artifact("rollouts"), artifact("rewards"))

    def train(self, policy, reference, scored, number):
        stopped = "loss nan" if number == self.stop_in else None
        fates = {f"{number}-a": "trained", f"{number}-b": "filtered:no_variance", f"{number}-c": "errored:reward"}
        report = TrainReport(number, {"reward": 0.5, "perf/train_seconds": 2.0, TOKENS: 100.0}, fates, 1, 2.0, stopped)
        self.trained.append(policy)
        self.told.append(("train", number, policy.name, scored.age))
        return (policy if stopped else artifact(f"policy {number + 1}")), artifact(report)

    def evaluate(self, policy, tasks, splits, name):
        score = self.scores.pop(0)
        value = Interval(score, 0.0, 1.0, 1, 1)
        errors = {"failed": 1} if score in self.errors_at else {}
        per_task = {"accuracy": {"scored": score}}
        report = EvaluationReport("validation", policy.name, 1, {"accuracy": value}, per_task, errors=errors)
        return artifact(Evaluation({"validation": report}))


class FakeTracker:
    """Keeps what is logged."""

    run_id = experiment_id = None

    def __init__(self):
        self.logged: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics, step):
        self.logged.setdefault(step, {}).update(metrics)


class FakeRetention:
    """Keeps everything."""

    def __init__(self, keep):
        self.calls = []

    def keep(self, policy, number, *, best):
        self.calls.append((policy.name, number, best))


def free(**budget) -> Account:
    """An account of a run with this budget."""
    return Account(BudgetConfig(**budget))


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch):
    monkeypatch.setattr(module, "Retention", FakeRetention)


def test_the_best_validated_policy_is_kept_and_the_last_one_trained_on():
    stages = FakeStages(scores=[0.1, 0.3, 0.6, 0.5], rounds=3)
    tracker = FakeTracker()
    result = run_rounds(stages, None, artifact("start"), tracker, free())
    assert (result.best.name, result.best_round) == ("policy 2", 2)
    assert [policy.name for policy in stages.trained] == ["start", "policy 1", "policy 2"]
    assert result.counts() == {"sampled": 9, "trained": 3, "filtered": 3, "errored": 3}
    assert result.seconds() == {"rollout": 0.0, "score": 0.0, "train": 6.0}
    assert result.resampling() == {}
    assert sorted(tracker.logged) == [0, 1, 2, 3]
    assert tracker.logged[2]["ledger/trained"] == 1.0
    assert tracker.logged[2]["eval/validation/accuracy"] == 0.6
    assert tracker.logged[2]["perf/orchestration_seconds"] < 0  # the fake says that training took 2 s


def test_the_pace_is_that_of_rounds_that_are_done_now(monkeypatch):
    seconds, facts = [0.0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    class Resumed(FakeStages):
        stage = Stage("training", lambda: seconds[0])

        @contextmanager
        def show(self, name):
            del name
            yield self.stage

        def train(self, policy, reference, scored, number):
            facts.append(self.stage.facts())
            seconds[0] += 0.5 if number < 6 else 2.5  # a report tells of 2 s of work
            return super().train(policy, reference, scored, number)

    stages = Resumed(scores=[0.5] * 11, rounds=10)
    run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    assert facts[5] == ["5 of 10 rounds", "2 s so far"]  # the other rounds were done before
    assert facts[6] == ["6 of 10 rounds", "3 s so far"]
    assert facts[8] == ["8 of 10 rounds", "5 s left", "0.4 rounds/s"]  # two rounds in 5 s


def test_what_the_rounds_have_come_to_is_told_after_each():
    told = []
    stages = FakeStages(scores=[0.1, 0.3, 0.6], rounds=3, validate_every=2)
    run_rounds(stages, None, artifact("start"), FakeTracker(), free(), lambda rounds: told.append(rounds.counts()))
    # After each round's sampling, of which the ledger knows when it is trained on, and its training; after two and
    # three rounds there is a validation.
    assert [each["sampled"] for each in told] == [0, 3, 3, 6, 6, 6, 9, 9]
    assert told[-1] == {"sampled": 9, "trained": 3, "filtered": 3, "errored": 3}


def test_a_resume_keeps_what_was_known_of_the_rounds_until_it_has_gone_through_them(monkeypatch, tmp_path):
    kept, known = [], Summary(status="failed", rounds=2, ledger=Ledger(sampled=64, trained=64))
    monkeypatch.setattr(Observer, "keep", lambda _: kept.append((known.rounds, known.ledger.sampled)))
    seen = Observer(None, None, known, Attempt("mine", tmp_path))
    stages = FakeStages(scores=[0.1, 0.5], rounds=3, validate_every=3)
    run_rounds(stages, None, artifact("start"), FakeTracker(), free(), seen.rounds_so_far)
    # Told after sampling and after training of each of three rounds, and after the validation.
    assert kept == [(2, 64)] * 3 + [(2, 6)] * 2 + [(3, 9)] * 2


def test_rounds_that_are_only_read_are_shown_by_another_name():
    stages = FakeStages([0.1, 0.3], rounds=1)
    run_rounds(stages, None, artifact("start"), FakeTracker(), free(), shown="reading")
    assert stages.shown == ["reading", (0, 1, "rounds")]


def test_a_policy_whose_tasks_failed_is_not_the_best_for_that():
    # 0.9 over one of two tasks, with the other as 0, is 0.45
    stages = FakeStages(scores=[0.1, 0.6, 0.9, 0.5], rounds=3, errors_at=(0.9,))
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    assert result.best.name == "policy 1"


def test_a_plateau_ends_training_after_patience_validations():
    stages = FakeStages(scores=[0.1, 0.4, 0.4, 0.3, 0.3, 0.4, 0.9], rounds=6, patience=2)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    # Of one task only the mean counts: 0.4 and 0.3 are above 0.1 and 0.4; then 0.3 and 0.3 are not above 0.4 and 0.4.
    assert len(result.reports) == 4
    assert result.best_round == 1
    assert result.stopped == (
        "plateau: from the 2 validations before them to the last 2, accuracy has changed by -0.100 in the mean of "
        "1 tasks, no more than chance brings about"
    )


def test_training_ends_where_a_monitor_says_why_and_its_last_policy_is_validated():
    stages, seen = FakeStages([0.1, 0.3, 0.2], 9, validate_every=2), []

    def watch(rounds, scored):
        seen.append((len(rounds.reports), sorted(rounds.validated), scored.rewards.name))
        return "monitor repetition: it repeats." if len(rounds.reports) == 3 else ""

    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free(), watch=watch)
    assert result.stopped == "monitor repetition: it repeats."
    assert (len(result.reports), result.best.name, sorted(result.validated)) == (3, "policy 2", [0, 2, 3])
    # It is asked after the validation of a round, with what the round was trained on.
    assert seen == [(1, [0], "rewards"), (2, [0, 2], "rewards"), (3, [0, 2], "rewards")]


def test_a_round_that_ends_training_anyway_is_looked_at_and_keeps_its_own_reason():
    stages, seen = FakeStages([0.1, 0.3], 5, stop_in=0), []
    watch = lambda rounds, scored: seen.append(len(rounds.reports)) or "monitor repetition: it repeats."  # noqa: E731
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free(), watch=watch)
    assert (seen, result.stopped) == ([1], "round 0: loss nan")


def test_training_ends_before_a_round_that_would_pass_the_budget_and_its_last_policy_is_validated():
    stages = FakeStages(scores=[0.1, 0.3], rounds=5, validate_every=5)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free(tokens=250))
    assert result.stopped == "budget: 200 of 250 tokens are spent, and one more round would take up to 100"
    assert (len(result.reports), result.best.name, result.best_round) == (2, "policy 2", 2)


def test_a_round_is_trained_whatever_the_budget():
    result = run_rounds(FakeStages([0.1, 0.3], 5), None, artifact("start"), FakeTracker(), free(tokens=1))
    assert (len(result.reports), result.best_round) == (1, 1)


def test_a_budget_that_lasts_for_all_rounds_ends_nothing():
    result = run_rounds(FakeStages([0.1, 0.3, 0.4], 2), None, artifact("start"), FakeTracker(), free(tokens=200))
    assert (len(result.reports), result.stopped) == (2, "")


def test_without_patience_all_rounds_are_done():
    stages = FakeStages(scores=[0.1, 0.4, 0.4, 0.3, 0.2, 0.2], rounds=5)
    assert len(run_rounds(stages, None, artifact("start"), FakeTracker(), free()).reports) == 5
    name, *shown = stages.shown
    assert name == "training"
    assert [each for each in shown if each[2] == "rounds"] == [(number, 5, "rounds") for number in range(5)]


def test_a_round_that_was_undone_ends_training_with_the_policy_before_it():
    stages = FakeStages(scores=[0.1, 0.4, 0.4], rounds=5, stop_in=1)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    assert len(result.reports) == 2
    assert result.best.name == "policy 1"
    assert result.stopped == "round 1: loss nan"


def test_the_start_is_no_candidate_for_best_even_when_training_made_it_worse():
    # the run must report what training did, not hide it behind the policy it started from
    stages = FakeStages(scores=[0.8, 0.3, 0.4], rounds=2)
    result = run_rounds(stages, None, artifact("start"), FakeTracker(), free())
    assert (result.best.name, result.best_round) == ("policy 2", 2)


def test_a_replay_does_its_own_rounds_with_the_reference_of_the_whole_run():
    stages, tracker, references, names = FakeStages([0.1, 0.3], 5, validate_every=5), FakeTracker(), [], []
    stages.train = lambda policy, reference, scored, number, train=stages.train: (
        references.append(reference.name) or train(policy, reference, scored, number)
    )
    stages.evaluate = lambda policy, tasks, splits, name, evaluate=stages.evaluate: (
        names.append(name) or evaluate(policy, tasks, splits, name)
    )
    whole = artifact("before all")
    result = run_rounds(stages, None, artifact("before 3"), tracker, free(), numbers=range(3, 4), reference=whole)
    assert ([policy.name for policy in stages.trained], references) == (["before 3"], ["before all"])
    assert (result.best_round, result.best.name) == (4, "policy 4")
    assert names == ["validation_r003", "validation_r004"]
    assert sorted(tracker.logged) == [3, 4]
    assert (0, 1, "rounds") in stages.shown

"""Rejection sampling learns from a check alone, in as many rounds as GRPO and within its budget."""

from __future__ import annotations

import pytest
import torch

from rlft.config import RewardConfig, TrainingConfig, WarmStartConfig
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.evaluation.searches import rejection as module
from rlft.evaluation.searches.rejection import run_rejection_control
from rlft.evaluation.searches.validator import Terms, Validator
from rlft.harness.rollout import SamplingSettings
from tests.factories import make_policy, make_task, make_task_set


class Even(BaseEnv):
    """A check without gold: the answer must begin with an even digit."""

    def compute_reward(self, completion, answer):
        return float(completion.text[:1] in tuple("02468"))


class Never(BaseEnv):
    def compute_reward(self, completion, answer):
        return 0.0


class Larger(BaseEnv):
    """Pays for a large digit and never in full, so that the form `full` has nothing to imitate."""

    def compute_reward(self, completion, answer):
        first = completion.text[:1]
        return int(first) / 10 if first.isdigit() else 0.0


class Broken(BaseEnv):
    def compute_reward(self, completion, answer):
        raise ValueError("no judge today")


TASKS = make_task_set(
    *(make_task(f"t{n}", f"{n}+1=", "") for n in range(6)),
    *(make_task(f"v{n}", f"{n}+2=", "", split="validation") for n in range(8)),
)
TRAINING = TrainingConfig(tasks_per_round=6, num_generations=8)
SETTINGS = WarmStartConfig(steps=5, batch_size=16, warmup_steps=2, learning_rate=2e-3)
ROUND = 1.2e7  # FLOPs of a round of 6 tasks with 8 attempts, a little more than what sampling all and training all cost


def sampled(temperature):
    return SamplingSettings(temperature=temperature, max_completion_length=2, batch_size=64, seed=0)


def controlled(environment, *, rounds=12, flops=None, settings=SETTINGS, metric="accuracy"):
    validator = Validator(TASKS, environment, TransformersEngine(64), sampled(0.0), RewardConfig(), 1, metric)
    policy = make_policy()
    before, validation = validator.validate(policy)
    report = run_rejection_control(
        policy,
        validator,
        Terms(
            warm_start=settings,
            training=TRAINING,
            sampling=sampled(1.0),
            rounds=rounds,
            validate_every=4,
            flops=rounds * ROUND if flops is None else flops,
            validation_flops=validation,
        ),
    )
    return policy, validator, report, before


def weights(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


def test_it_learns_without_gold_in_as_many_rounds_as_grpo_and_keeps_the_best_checkpoint():
    policy, validator, report, before = controlled(Even())
    assert before.metrics["accuracy"].mean < 0.9
    assert report.chosen is not None
    assert report.chosen.validation == max(each.validation for each in report.candidates) > 0.9
    assert validator.validate(policy)[0].metrics["accuracy"].mean == report.chosen.validation
    assert len(report.losses) == report.chosen.steps
    # trials at the rate, a third and three times; then both forms, validated after 4, 8 and 12 rounds
    trials, long = report.candidates[:3], report.candidates[3:]
    assert [each.learning_rate for each in trials] == pytest.approx([2e-3, 2e-3 / 3, 6e-3])
    assert {(each.form, each.rounds) for each in trials} == {("full", 2)}
    assert [(each.form, each.rounds) for each in long] == [(form, n) for form in ("full", "best") for n in (4, 8, 12)]
    assert 0.7 * report.budget < report.spent <= report.budget
    assert 0 < report.demonstrations < report.attempts


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.6, 1.0, 3.0])
def test_it_never_spends_more_than_its_budget(share):
    _, _, report, _ = controlled(Even(), rounds=6, flops=6 * ROUND * share)
    assert report.spent <= report.budget
    assert report.candidates


def test_it_repeats_itself():
    (one, _, first, _), (two, _, second, _) = (controlled(Even(), rounds=4) for _ in range(2))
    assert torch.equal(weights(one), weights(two))
    assert (first.candidates, first.spent, first.losses) == (second.candidates, second.spent, second.losses)


@pytest.mark.parametrize("environment", [Never(), Broken()])
def test_rounds_without_an_attempt_to_imitate_train_nothing_and_go_on(environment):
    start = weights(make_policy())
    policy, _, report, _ = controlled(environment, rounds=4)
    assert torch.equal(weights(policy), start)
    assert report.demonstrations == 0
    assert max(each.rounds for each in report.candidates) == 4
    assert {each.steps for each in report.candidates} == {0}


def test_where_next_to_nothing_is_solved_the_rate_is_tuned_on_the_best_attempts():
    _, _, report, before = controlled(Larger(), metric="reward")
    tried = [(each.form, each.rounds, each.steps > 0) for each in report.candidates[:4]]
    assert tried == [("full", 2, False), ("best", 2, True), ("best", 2, True), ("best", 2, True)]
    rates = [each.learning_rate for each in report.candidates[1:4]]
    assert rates == pytest.approx([2e-3, 2e-3 / 3, 6e-3])
    best = max(report.candidates[1:4], key=lambda each: each.validation)
    assert {each.learning_rate for each in report.candidates[4:]} == {best.learning_rate}
    assert report.chosen.form == "best"
    assert report.chosen.validation > before.metrics["reward"].mean + 0.1
    assert report.spent <= report.budget


def test_a_form_whose_numbers_go_wrong_ends_with_what_it_has(monkeypatch, caplog):
    step = module.Imitator.step

    def failing(self, rollouts, learning_rate):
        if learning_rate > 3e-3 or self.state.steps == 6:
            raise module.PolicyError("the loss is nan", where="here", fix="lower it")
        step(self, rollouts, learning_rate)

    monkeypatch.setattr(module.Imitator, "step", failing)
    _, _, report, _ = controlled(Even())
    failed = [each for each in report.candidates if each.validation is None]
    assert failed[0].learning_rate == pytest.approx(6e-3)
    assert {each.form for each in failed} == {"full", "best"}
    assert report.chosen is not None
    assert "ends after" in caplog.text


def test_without_a_warm_start_it_takes_the_usual_rate():
    _, _, report, _ = controlled(Even(), rounds=2, settings=None)
    assert report.candidates[0].learning_rate == 1e-3


def test_without_a_budget_nothing_is_done():
    policy, _, report, _ = controlled(Even(), rounds=2, flops=0.0)
    assert torch.equal(weights(policy), weights(make_policy()))
    assert (report.candidates, report.chosen, report.spent, report.attempts) == ((), None, 0.0, 0)

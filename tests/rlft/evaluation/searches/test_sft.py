"""The SFT control learns from every gold answer there is, and reports what it spent."""

from __future__ import annotations

import pytest
import torch

from rlft.config import RewardConfig, WarmStartConfig
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.evaluation.searches.sft import run_sft_control
from rlft.evaluation.searches.validator import Terms, Validator
from rlft.harness.rollout import SamplingSettings
from tests.factories import make_policy, make_task, make_task_set


class Sums(BaseEnv):
    def gold_completion(self, task):
        return task.answer

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


class Guesses(Sums):
    """Demonstrates a guess, and knows better."""

    def demonstration(self, task):
        return "7"


class Mumbles(Sums):
    """Knows a bare answer, which its reward does not take, and demonstrates how to declare it."""

    def demonstration(self, task):
        return f"={task.answer}"

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == f"={answer}")


TRAIN = [make_task(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(3) for b in range(3)]
VALIDATION = [make_task(f"v{a}", f"{a}+{a}=", str(a + a), split="validation") for a in range(4)]
SETTINGS = WarmStartConfig(steps=5, demonstrations=2, batch_size=4, warmup_steps=2, learning_rate=3e-3)


def terms(flops, validation):
    return Terms(warm_start=SETTINGS, flops=flops, validation_flops=validation)


@pytest.mark.slow
def test_it_ends_with_the_chosen_weights_inside_its_budget():
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=16, seed=0)
    tasks = make_task_set(*TRAIN, *VALIDATION)
    validator = Validator(tasks, Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
    policy = make_policy()
    before = torch.cat([p.detach().flatten().clone() for p in policy.model.parameters()])
    _, validation = validator.validate(policy)
    report = run_sft_control(policy, validator, terms(1e9, validation))
    assert 0 < report.spent <= report.budget == 1e9
    assert (report.demonstrations, report.metric) == (9, "accuracy")
    assert report.chosen in report.candidates
    assert report.chosen.validation == max(candidate.validation for candidate in report.candidates)
    assert len(report.losses) == report.chosen.steps
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in policy.model.parameters()]))
    found, _ = validator.validate(policy)
    assert found.metrics["accuracy"].mean == report.chosen.validation


def test_gold_that_the_model_cannot_be_shown_ends_no_run(caplog):
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=16, seed=0)
    long = make_task("long", "1+1=", "1" * 100)

    def controlled(*train):
        validator = Validator(
            make_task_set(*train, *VALIDATION), Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy"
        )
        return run_sft_control(make_policy(), validator, terms(1e8, 1e6))

    assert controlled(long, *TRAIN).demonstrations == 9
    assert "1 of 10 demonstrations are left out, such as warm_start, demonstration for '1+1='" in caplog.text
    nothing = controlled(long)
    assert (nothing.demonstrations, nothing.spent, nothing.chosen, nothing.losses) == (0, 0.0, None, ())


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "answers"), [(Guesses(), "gold"), (Mumbles(), "demonstration")])
def test_of_gold_and_demonstrations_the_control_imitates_what_does_better_in_validation(environment, answers):
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=16, seed=0)
    tasks = make_task_set(*TRAIN, *VALIDATION)
    validator = Validator(tasks, environment, TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
    report = run_sft_control(make_policy(), validator, terms(2e10, 1e7))
    assert [each.form for each in report.candidates[:2]] == ["gold", "demonstration"]  # both at the middle rate
    assert report.candidates[0].learning_rate == report.candidates[1].learning_rate == 3e-3
    assert report.chosen.form == answers
    assert {each.form for each in report.candidates[2:]} == {answers}
    assert report.chosen.validation >= 0.5
    # a digit and the end of the turn, or an equals sign before these
    assert (report.answers, report.answer_tokens) == (answers, 2.0 if answers == "gold" else 3.0)
    assert report.spent <= report.budget

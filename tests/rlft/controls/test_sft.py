"""The SFT control learns from every gold answer there is, and reports what it spent."""

from __future__ import annotations

import json

import pytest
import torch

from rlft.config import RewardConfig, WarmStartConfig
from rlft.contract.base import BaseEnv
from rlft.controls.judging import Judge
from rlft.controls.sft import all_demonstrations, run_sft_control
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import TaskError
from rlft.rollout import SamplingSettings
from tests.factories import make_policy, make_task, make_task_set


class Sums(BaseEnv):
    def gold_completion(self, task):
        return task.answer

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


class WithoutGold(Sums):
    def gold_completion(self, task):
        return None


TRAIN = [make_task(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(3) for b in range(3)]
VALIDATION = [make_task(f"v{a}", f"{a}+{a}=", str(a + a), split="validation") for a in range(4)]
SETTINGS = WarmStartConfig(steps=5, demonstrations=2, batch_size=4, warmup_steps=2, learning_rate=3e-3)


def test_all_gold_answers_are_imitated_and_the_file_of_the_warm_start_too(tmp_path):
    assert len(all_demonstrations(SETTINGS, TRAIN, Sums())) == len(TRAIN) == 9  # the warm start shows 2
    file = tmp_path / "shown.jsonl"
    row = {"messages": [{"role": "user", "content": "7+1="}, {"role": "assistant", "content": "8"}]}
    file.write_text(3 * (json.dumps(row) + "\n"))
    settings = SETTINGS.model_copy(update={"path": str(file)})
    assert len(all_demonstrations(settings, TRAIN, Sums())) == 2 + 9
    assert len(all_demonstrations(settings, TRAIN, WithoutGold())) == 2
    with pytest.raises(TaskError, match="no train task has a gold answer"):
        all_demonstrations(SETTINGS, TRAIN, WithoutGold())


def test_it_ends_with_the_chosen_weights_inside_its_budget():
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=16, seed=0)
    tasks = make_task_set(*TRAIN, *VALIDATION)
    judge = Judge(tasks, Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
    policy = make_policy()
    before = torch.cat([p.detach().flatten().clone() for p in policy.model.parameters()])
    _, validation = judge.validate(policy)
    report = run_sft_control(policy, SETTINGS, judge, flops=1e9, validation_flops=validation, seed=0)
    assert 0 < report.spent <= report.budget == 1e9
    assert (report.demonstrations, report.metric) == (9, "accuracy")
    assert report.chosen in report.candidates
    assert report.chosen.validation == max(candidate.validation for candidate in report.candidates)
    assert len(report.losses) == report.chosen.steps
    assert not torch.equal(before, torch.cat([p.detach().flatten() for p in policy.model.parameters()]))
    found, _ = judge.validate(policy)
    assert found.metrics["accuracy"].mean == report.chosen.validation


def test_gold_that_the_model_cannot_be_shown_ends_no_run(caplog):
    sampling = SamplingSettings(temperature=0.0, max_completion_length=4, batch_size=16, seed=0)
    long = make_task("long", "1+1=", "1" * 100)

    def controlled(*train):
        judge = Judge(
            make_task_set(*train, *VALIDATION), Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy"
        )
        return run_sft_control(make_policy(), SETTINGS, judge, flops=1e8, validation_flops=1e6, seed=0)

    assert controlled(long, *TRAIN).demonstrations == 9
    assert "1 of 10 demonstrations are left out, such as warm_start, demonstration for '1+1='" in caplog.text
    nothing = controlled(long)
    assert (nothing.demonstrations, nothing.spent, nothing.chosen, nothing.losses) == (0, 0.0, None, ())

"""Rounds in one process: the reward rises, and everything follows from the config."""

import pytest
import torch

from rlft.config import Config
from rlft.engines.transformers_engine import TransformersEngine
from rlft.iteration import run_round, sample_round, train_sampled
from rlft.models.origin import create_policy
from rlft.tasks.curriculum import PassRates
from tests.factories import CHARACTERS, FirstCharacter, make_task, make_task_set

TASKS = make_task_set(*(make_task(f"t{i}", prompt=f"{i}=", answer=str(i % 2)) for i in range(8)))


def config(**training):
    # At this rate, which gets by with few rounds, an update moves one token of 16 by nats.
    settings = {"tasks_per_round": 8, "num_generations": 16, "learning_rate": 2e-2, "adam_beta2": 0.95, "max_kl": 1e9}
    settings |= training
    return Config.model_validate(
        {
            "name": "parity",
            "seed": 3,
            "tasks": {"source": "jsonl", "path": "none"},
            "environment": {"name": "tests.factories:FirstCharacter"},
            "policy": {
                "from_scratch": {
                    "characters": CHARACTERS,
                    "hidden_size": 32,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "intermediate_size": 64,
                },
                "device": "cpu",
            },
            "rollout": {"max_completion_length": 1},
            "training": settings,
        }
    )


def run(settings, rounds):
    policy, engine = create_policy(settings.policy, seed=settings.seed), TransformersEngine()
    results = [run_round(TASKS, FirstCharacter(), policy, engine, settings, round=number) for number in range(rounds)]
    return policy, results


def mean_reward(result):
    return sum(reward.total for reward in result.rewards) / len(result.rewards)


@pytest.mark.slow
@pytest.mark.parametrize(("loss_type", "scale"), [("dapo", "group"), ("grpo", "batch")])
def test_the_reward_rises(loss_type, scale):
    # Whether a digit is odd, in one token of 16: chance is 1/16. Saying always "1" would earn 0.5.
    _, results = run(config(loss_type=loss_type, scale_rewards=scale, updates_per_round=2), 12)
    rewards = [mean_reward(result) for result in results]
    assert rewards[0] < 0.2
    assert sum(rewards[-3:]) / 3 > 0.7
    for number, result in enumerate(results):
        assert result.report.stopped is None
        assert (result.report.round, len(result.rollouts)) == (number, 128)
        counts = result.report.counts()
        assert counts["trained"] + counts["filtered"] + counts["errored"] == counts["sampled"] == 128


def test_a_run_repeats_itself():
    (first, one), (second, other) = run(config(updates_per_round=2), 2), run(config(updates_per_round=2), 2)
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [r.report.metrics for r in one] == [r.report.metrics for r in other]
    assert first.metadata.update == 4


def test_wasted_groups_are_replaced_and_not_trained_on():
    # Two attempts at whether a digit is odd, in one token of 16: nearly all of the groups are wasted at first.
    settings = config(tasks_per_round=2, num_generations=2, max_num_gen_batches=3)
    _, (one,) = run(settings, 1)
    _, (again,) = run(settings, 1)
    metrics = one.rollouts.metrics
    assert metrics["dynamic_sampling/gen_batches"] == 3.0
    assert metrics["dynamic_sampling/resampled_groups"] == len(one.rollouts) / 2 - 2 > 0
    thrown = [rollout.rollout_id for rollout in one.rollouts if one.report.fates[rollout.rollout_id] != "trained"]
    assert len(thrown) == metrics["dynamic_sampling/thrown_rollouts"]
    assert {one.report.fates[key] for key in thrown} == {"filtered:no_variance"}
    assert [row.rollout_id for row in one.rollouts] == [row.rollout_id for row in again.rollouts]
    assert [row.token_ids.tolist() for row in one.rollouts] == [row.token_ids.tolist() for row in again.rollouts]


def test_a_round_is_drawn_by_the_rates_that_it_is_given():
    settings = config(curriculum="pass_rate", tasks_per_round=2)
    solved = PassRates({task.id: (100.0, 0.0, 0) for task in TASKS.tasks[:6]})
    policy, engine = create_policy(settings.policy, seed=3), TransformersEngine()
    result = run_round(TASKS, FirstCharacter(), policy, engine, settings, round=0, rates=solved)
    assert {rollout.task_id for rollout in result.rollouts} == {"t6", "t7"}
    assert (result.draw.retired, result.draw.curriculum) == (6, "pass_rate")


def test_a_round_that_was_sampled_before_the_last_training_is_trained_on_without_weights():
    settings = config(updates_per_round=2)
    policy, engine = create_policy(settings.policy, seed=settings.seed), TransformersEngine()
    sampled = [sample_round(TASKS, FirstCharacter(), policy, engine, settings, round=number) for number in range(2)]
    own, late = (train_sampled(policy, each, settings, age=age) for age, each in enumerate(sampled))
    assert {rollout.policy for each in sampled for rollout in each.rollouts} == {next(iter(sampled[0].rollouts)).policy}
    assert (own.age, late.age) == (0, 1)
    effective = [report.metrics["sampling/effective_sample_ratio"] for report in (own, late)]
    assert effective[0] == pytest.approx(1.0, abs=1e-5)  # the policy's own attempts weigh the same but for rounding
    assert 0 < effective[1] < 0.999
    weighed = ["sampling/capped_ratio" in report.metrics for report in (own, late)]
    assert weighed == [False, False]  # the ratio of the loss is to the policy before the round, and nothing is weighted

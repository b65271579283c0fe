"""A whole estimate by hand: the work that a config asks for, times what a probe has measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlft.config.file import load_config
from rlft.estimation.estimate import Probed, estimate_run, work_of
from rlft.estimation.machine import Span, room_for
from tests.rlft.estimation.made import BEFORE, make_config, make_round, near, probed

TINY = Path(__file__).parents[2] / "fixtures" / "configs" / "tiny.yaml"
COUNTS = {"validation": 10, "test": 10, "final": 10}
# 32 attempts a round
LARGER = {"training": {"rounds": 1, "tasks_per_round": 8, "num_generations": 4}, "rollout": {"batch_size": 16}}


def estimated(*rounds, gpus=0, **changes):
    return estimate_run(make_config(**changes), probed(*rounds), gpus, 10**10)


def test_the_work_of_the_tiny_config():
    # 3 rounds of 8 tasks, 4 attempts each; 12 tasks for each of 4 splits; validations before, after round 2 and 3.
    # Base, warm start and trained model are evaluated, and an sft control and a champion if there are.
    work = work_of(load_config(TINY), {"validation": 12, "test": 12, "final": 36})
    assert (work.trained, work.sampled, work.validations) == (96, Span(96, 96), 3)
    # 12 tasks of the baseline 4 times, 3 validations of 12, and 36 for each of 3 to 5 models
    assert (work.arms, work.evaluated) == (Span(3, 5), Span(48 + 36 + 3 * 36, 48 + 36 + 5 * 36))
    # 9 of rounds, 8 beside them, the warm start; 3 for each of 1 + 3 + 3 to 5 evaluations; 0 to 2 for controls.
    assert work.steps == Span(39, 47)  # a run had 43


def test_pass_at_k_is_of_two_models():
    def attempts(tasks, **changes):
        config = make_config(baseline={"num_tasks": 50, "num_generations": 8}, **changes)
        return work_of(config, {"validation": 10, "test": tasks, "final": 40}).evaluated.low

    for tasks, asked in ((30, 30), (90, 50)):
        assert attempts(tasks, evaluation={"pass_at_k": True}) - attempts(tasks) == 2 * asked * 8


def test_arms_by_what_the_config_says():
    assert work_of(make_config(), COUNTS).arms == Span(2, 3)  # base and trained; a champion
    assert work_of(make_config(controls=["rejection_sampling"]), COUNTS).arms == Span(3, 4)
    assert work_of(make_config(controls=["sft", "few_shot"]), COUNTS).arms == Span(2, 5)  # their answers may be missing
    assert work_of(make_config(controls=None), COUNTS).arms == Span(3, 6)
    assert work_of(make_config(controls=["few_shot", {"model": "y"}]), COUNTS).arms == Span(3, 5)


def test_validations_come_after_every_third_round_and_after_the_last():
    for rounds, after in ((1, 1), (3, 1), (4, 2), (6, 2), (7, 3)):
        config = make_config(training={"rounds": rounds}, evaluation={"validate_every": 3})
        assert work_of(config, COUNTS).validations == 1 + after


def test_the_stages_of_a_run_and_what_they_come_to():
    # 40 attempts in all at 0.4 s of sampling, 0.05 of scoring and 0.2 of training, each 0.6 to 1.6 times that
    found = estimated(make_round(10, 4.0))
    stages = found.stages
    assert list(stages) == ["setup", "sampling", "scoring", "training", "evaluation", "conclusion", "storing"]
    assert near(stages["sampling"], 0.6 * 16, 1.6 * 16)
    assert near(stages["scoring"], 0.6 * 2, 1.6 * 2)
    assert near(stages["training"], 0.6 * 8 * 0.2, 1.6 * 8)  # a fifth of the groups is trained on at least
    # 10 tasks of the baseline 8 times, 3 validations of 10, and 50 for each of 2 to 3 models, at 0.45 s
    assert near(stages["evaluation"], 0.6 * 0.45 * (80 + 30 + 100), 1.6 * 0.45 * (80 + 30 + 150))
    assert near(found.seconds, sum(each.low for each in stages.values()), sum(each.high for each in stages.values()))
    assert near(found.sampled, 0.6 * 400, 1.6 * 400)
    assert found.room.verdict == "fits"


def test_the_largest_round_says_what_a_round_takes():
    found = estimated(make_round(4, 9.0), make_round(32, 8.0), **LARGER).stages
    assert near(found["sampling"], 0.6 * 8, 1.6 * 8)  # however slow the first was


def test_dynamic_sampling_widens_what_is_sampled_and_scored_but_not_what_is_trained_on():
    plain, found = (estimated(make_round(10, 4.0), training=each).stages for each in ({}, {"max_num_gen_batches": 3}))
    for name in ("sampling", "scoring"):
        assert near(found[name], plain[name].low, 3 * plain[name].high)
    assert found["training"] == plain["training"]


@pytest.mark.parametrize("train", [0.1, 20.0])
def test_rounds_that_are_sampled_ahead_take_as_long_as_the_longer_half(train):
    found = estimated(make_round(10, 4.0, train=train), training={"lag": 1})
    stages = found.stages
    halves = [stages.pop("sampling") + stages.pop("scoring"), stages.pop("training")]
    for end in ("low", "high"):
        rest = sum(getattr(each, end) for each in stages.values())
        assert getattr(found.seconds, end) == pytest.approx(rest + max(getattr(each, end) for each in halves))


def test_what_it_costs():
    found = estimated(make_round(10, 4.0), gpus=2)
    assert found.cost(120.0).low == pytest.approx(found.seconds.low / 30)
    told = found.as_json(None)
    assert told["cost"] is None
    assert told["gpu_hours"]["low"] == pytest.approx(2 * found.seconds.low / 3600)
    assert told["memory"]["verdict"] == "fits"


def test_controls_and_a_warm_start_have_stages_of_their_own():
    warm = {"kind": "warm_start", "seconds": 100.0, "whole": 1.0}
    changes = {"controls": ["rejection_sampling"], "warm_start": {"steps": 3}}
    stages = estimated(warm, make_round(10, 4.0), **changes).stages
    assert near(stages["warm start"], 60, 160)
    # from a twentieth of what sampling and training take to all of it
    assert near(stages["controls"], 0.05 * (9.6 + 0.96), 25.6 + 12.8)


def test_prompts_of_controls_are_chosen_by_validations_and_another_model_is_named_instead():
    # 10 validation tasks at 0.45 s: 1 to 2 * 3 validations of three instructions, and 0 to 8 of examples, whose answers
    # may be missing.
    found = estimated(make_round(10, 4.0), controls=["few_shot", {"prompt": ["a", "b", "c"]}])
    assert near(found.stages["controls"], 0.6 * 0.45 * 10 * 1, 1.6 * 0.45 * 10 * (6 + 8))
    assert near(found.evaluated, 6 * (80 + 30 + 50 * 3 + 10), 16 * (80 + 30 + 50 * 5 + 10 * 14))  # 10 tokens an attempt
    other = estimated(make_round(10, 4.0), controls=[{"model": "y"}])
    assert near(other.stages["controls"], 0, 0)
    assert other.basis[-1].endswith("another model makes it: model.")


def test_a_budget_is_named_as_what_may_end_the_rounds():
    found, whole = (estimated(make_round(10, 4.0), budget=each) for each in ({"minutes": 1, "tokens": 9}, {}))
    assert (found.stages, found.sampled) == (whole.stages, whole.sampled)
    assert next(each for each in found.basis if each not in whole.basis).startswith("budget.minutes and budget.tokens ")


def test_memory_with_more_attempts_side_by_side_and_more_trainers():
    # 8 attempts added 0.2 GB to the model's 1.5: 16, the batch size, add 0.2 more; another copy of the weights is 0.5.
    # A pipeline takes 0.2 to 0.8 besides.
    found = estimated(make_round(8, 1.0), **LARGER)
    assert near(found.room.needed, 1.7e9 + 2e8, 1.7e9 + 0.2e9 + 0.5e9 + 8e8)
    two = {**LARGER, "distributed": {"engine": "ray", "trainers": 2}}
    assert near(estimated(make_round(8, 1.0), **two).room.needed, 1.9e9, 3 * 3.2e9)  # each may hold as much as the run
    lines = [{**line, "gpu_memory": 1.0} for line in BEFORE]
    on_gpu = Probed([*lines, make_round(16, 1.0, gpu_memory=2.0)], 20.0)
    assert near(estimate_run(make_config(**two), on_gpu, 1, 10).room.needed, 2.0, 2 * 2.0)


@pytest.mark.parametrize(("there", "verdict"), [(3e9, "fits"), (2.5e9, "may_not_fit"), (1.9e9, "does_not_fit")])
def test_whether_memory_is_enough(there, verdict):
    room = room_for(make_config(), Span(2e9, 3e9), int(there), on_gpu=False)
    assert room.verdict == verdict
    assert bool(room.lower) is (verdict != "fits")
    assert room.sentence.startswith("It takes 1.86 GiB to 2.79 GiB of the")
    if room.lower:
        assert "rollout.max_completion_length=50" in room.sentence
        assert "policy.dtype" not in room.sentence  # that helps on a GPU alone

"""A whole estimate by hand, and what a budget and an early stop change."""

from dataclasses import replace

import pytest

from rlft.estimation.estimate import before_rounds, endings, estimate_run, one_round, rounds_within
from rlft.estimation.memory import room_for
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, exactly
from rlft.estimation.work import TaskCounts, work_of
from tests.rlft.estimation.made import make_config, near

CONFIG = make_config()
WORK = work_of(CONFIG, TaskCounts(10, 10, 20))  # 4 rounds of 10 attempts, 3 validations, 2 to 3 arms
RATES = Rates(
    setup=exactly(5),
    warm_start=exactly(100),  # the config has none
    sample=Span(0.1, 0.2),
    score=exactly(0.05),
    train=exactly(0.05),
    baseline=exactly(4),
    validation=exactly(2),
    arm=exactly(3),
    often=exactly(0),
    controls=exactly(7),  # none is trained
    closing=exactly(1),
    between=exactly(0),
    tokens=exactly(30),
    evaluated=exactly(500),
    memory=Span(2e9, 3e9),
)


def test_the_stages_of_a_run():
    found = estimate_run(CONFIG, WORK, RATES, 0, ["a probe"], 10**10)
    by_name = {stage.name: stage.seconds for stage in found.stages}
    assert list(by_name) == ["setup", "sampling", "scoring", "training", "evaluation", "conclusion", "storing"]
    assert near(by_name["sampling"], 4, 8)  # 40 attempts
    assert near(by_name["training"], 2)
    assert near(by_name["evaluation"], 4 + 3 * 2 + 2 * 3, 4 + 3 * 2 + 3 * 3)
    assert near(found.seconds, 5 + 4 + 2 + 2 + 16 + 1, 5 + 8 + 2 + 2 + 19 + 1)
    assert near(found.sampled, 1200)
    assert found.room.verdict == "fits"


def test_dynamic_sampling_widens_what_is_sampled_and_scored_but_not_what_is_trained_on():
    config = make_config(training={"max_num_gen_batches": 3})
    found = estimate_run(config, work_of(config, TaskCounts(10, 10, 20)), RATES, 0, [], 10**10)
    by_name = {stage.name: stage.seconds for stage in found.stages}
    assert near(by_name["sampling"], 4, 24)  # 40 to 120 attempts
    assert near(by_name["scoring"], 2, 6)
    assert near(by_name["training"], 2)
    assert near(found.sampled, 1200, 3600)
    assert "4 rounds of 10 to 30 attempts" in found.stages[1].what


def test_rounds_that_are_sampled_ahead_take_as_long_as_the_longer_half():
    config = make_config(training={"lag": 1})
    work = work_of(config, TaskCounts(10, 10, 20))
    for train, low, high in ((0.05, 4 + 2, 8 + 2), (0.2, 8, 10), (0.5, 20, 20)):  # 4 to 8 s of sampling, 2 of scoring
        found = estimate_run(config, work, replace(RATES, train=exactly(train)), 0, [], 10**10)
        assert near(found.seconds, 5 + low + 16 + 1, 5 + high + 19 + 1)
        # of one round, with its share of two validations of 2 s
        assert near(one_round(work, replace(RATES, train=exactly(train))), low / 4 + 1, high / 4 + 1)


def test_what_it_costs():
    found = estimate_run(CONFIG, WORK, RATES, 2, [], 10**10)
    assert near(found.cost(120.0), 1.0, 37 / 30)  # 30 to 37 s at 2 a minute
    told = found.as_json(None)
    assert told["cost"] is None
    assert told["gpu_hours"]["low"] == pytest.approx(60 / 3600)
    assert told["memory"]["verdict"] == "fits"


def test_controls_and_a_warm_start_have_stages_of_their_own():
    config = make_config(controls=["rejection_sampling"], warm_start={"steps": 3})
    work = work_of(config, TaskCounts(10, 10, 20))
    by_name = {stage.name: stage.seconds for stage in estimate_run(config, work, RATES, 0, [], 1).stages}
    assert near(by_name["warm start"], 100)
    assert near(by_name["controls"], 280)


def test_a_budget_of_minutes_leaves_time_for_fewer_rounds():
    # 11 s pass before the first round; a round takes 2 or 3 s, with half a validation, 1 s, beside it.
    assert near(before_rounds(WORK, RATES), 11)
    assert near(one_round(WORK, RATES), 3, 4)
    config = make_config(budget={"minutes": 20 / 60})
    assert rounds_within(config.budget, WORK, RATES, 0) == Span(2, 3)
    found = estimate_run(config, WORK, RATES, 0, [], 10**10)
    assert near({stage.name: stage.seconds for stage in found.stages}["sampling"], 2, 6)
    assert "leaves time for 2 to 3 of 4 rounds" in found.endings[0]


def test_budgets_of_tokens_and_gpu_hours():
    tokens = make_config(budget={"tokens": 700})  # 300 a round
    assert rounds_within(tokens.budget, WORK, RATES, 0) == exactly(2)
    assert near(estimate_run(tokens, WORK, RATES, 0, [], 1).sampled, 600)
    hours = make_config(budget={"gpu_hours": 2 * 20 / 3600})  # on two GPUs the same as 20 s
    assert rounds_within(hours.budget, WORK, RATES, 2) == Span(2, 3)
    assert rounds_within(hours.budget, WORK, RATES, 0) == exactly(4)  # no GPU, no hours of one


def test_one_round_is_always_done():
    config = make_config(budget={"minutes": 0.01})
    assert rounds_within(config.budget, WORK, RATES, 0) == exactly(1)


def test_what_may_end_a_run_is_said():
    assert len(endings(CONFIG, exactly(4))) == 1
    assert "baseline.already_solved: 0.97" in endings(CONFIG, exactly(4))[0]
    patient = make_config(evaluation={"patience": 2, "validate_every": 1})
    assert "from round 3 on" in endings(patient, exactly(4))[0]  # four validations, the first of them before training
    late = make_config(evaluation={"patience": 3, "validate_every": 1})
    assert len(endings(late, exactly(4))) == 1  # it would be after round 5


@pytest.mark.parametrize(("there", "verdict"), [(3e9, "fits"), (2.5e9, "may_not_fit"), (1.9e9, "does_not_fit")])
def test_whether_memory_is_enough(there, verdict):
    room = room_for(CONFIG, Span(2e9, 3e9), int(there), on_gpu=False)
    assert room.verdict == verdict
    assert bool(room.lower) is (verdict != "fits")
    assert room.sentence.startswith("It takes 1.86 GiB to 2.79 GiB of the")
    if room.lower:
        assert "rollout.max_completion_length=50" in room.sentence
        assert "policy.dtype" not in room.sentence  # that helps on a GPU alone

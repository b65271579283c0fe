"""Rates of past runs, by hand: see `make_run` for what its steps take."""

from dataclasses import replace

import pytest

from rlft.estimation.records import changed_settings, counts_of, fits, rates_of_runs
from tests.rlft.estimation.made import make_config, make_run, near

ONE = (0.75, 1.35)  # how one run is widened


def test_rates_of_one_run():
    rates = rates_of_runs([make_run()], make_config())
    assert near(rates.setup, 5 * ONE[0], 5 * ONE[1])
    assert near(rates.sample, 0.4 * ONE[0], 0.4 * ONE[1])  # 4 s for 10 attempts
    assert near(rates.score, 0.1 * ONE[0], 0.1 * ONE[1])
    assert near(rates.train, 0.2 * ONE[0], 0.2 * ONE[1])
    assert near(rates.validation, 3 * ONE[0], 3 * ONE[1])  # 2 + 0.5 + 0.5
    assert near(rates.arm, 6 * ONE[0], 6 * ONE[1])
    assert near(rates.closing, ONE[0], ONE[1])
    assert near(rates.tokens, 30 * ONE[0], 30 * ONE[1])
    # Steps take 5 + 14 + 18 + 1 = 38 s; a quarter more for 21 steps.
    assert near(rates.between, 9.5 / 21 * ONE[0], 9.5 / 21 * ONE[1])
    assert near(rates.evaluated, 20 * 54 * ONE[0], 20 * 54 * ONE[1])  # 7 + 7 + 20 + 20 attempts
    assert near(rates.controls, 0)
    assert near(rates.memory, 1e9, 1.1e9)


def test_several_runs_give_their_range_which_is_widened_less():
    runs = [make_run(), make_run("second", 1.5)]
    rates = rates_of_runs(runs, make_config())
    assert near(rates.sample, 0.4 * 0.8, 0.6 * 1.25)
    three = rates_of_runs([*runs, make_run("third", 1.25)], make_config())
    assert near(three.sample, 0.4 * 0.85, 0.6 * 1.2)


def test_attempts_that_may_be_longer_or_shorter():
    longer = rates_of_runs([make_run()], make_config(rollout={"max_completion_length": 300}))
    assert near(longer.tokens, 30 * ONE[0], 90 * ONE[1])
    assert near(longer.train, 0.2 * ONE[0], 0.6 * ONE[1])
    assert near(longer.setup, 5 * ONE[0], 5 * ONE[1])
    shorter = rates_of_runs([make_run()], make_config(rollout={"max_completion_length": 50}))
    assert near(shorter.tokens, 15 * ONE[0], 30 * ONE[1])


def test_more_attempts_in_evaluations():
    asked = {"num_generations": 4, "temperature": 1.0}
    rates = rates_of_runs([make_run()], make_config(evaluation=asked))
    assert near(rates.validation, 12 * ONE[0], 12 * ONE[1])
    assert near(rates.baseline, 0)  # the run had none


def test_tasks_are_counted_by_what_was_attempted():
    counts = counts_of(make_run())
    assert (counts.validation, counts.test, counts.final) == (7, 0, 20)


def test_memory_that_is_not_known():
    assert rates_of_runs([replace(make_run(), memory=None)], make_config()).memory is None
    gpu = rates_of_runs([replace(make_run(), gpu_memory=4e9)], make_config())
    assert gpu.on_gpu
    assert near(gpu.memory, 4e9, 4.4e9)


def test_a_run_without_rounds_of_its_own_says_nothing():
    run = make_run()
    assert run.is_usable
    for name in ("train_grpo_r", "generate_rollouts_r", "generate_rollouts_trained"):
        steps = [step for step in run.steps if not step.name.startswith(name)]
        assert not replace(run, steps=steps).is_usable


@pytest.mark.parametrize(
    ("change", "is_fit"),
    [
        ({"training": {"rounds": 9}}, True),
        ({"policy": {"model": "x", "keep": {"last": 3}}}, True),
        ({"policy": {"model": "y"}}, False),
        ({"rollout": {"engine": "vllm"}}, False),
        ({"environment": {"name": "own.py:Other"}}, False),
    ],
)
def test_runs_of_another_model_engine_or_environment_do_not_fit(change, is_fit):
    assert fits(make_run(), make_config(**change)) is is_fit


def test_settings_that_differ_are_named():
    runs = [make_run(), make_run("second", evaluation={"validate_every": 9})]
    assert changed_settings(runs, make_config(training={"learning_rate": 1e-7})) == [
        "training.learning_rate",
        "training.rounds",
    ]


def test_a_busy_machine_may_take_twice_as_long():
    alone, busy = (rates_of_runs([make_run()], make_config(), each) for each in (1.0, 1.5))
    assert near(busy.sample, alone.sample.low, 1.5 * alone.sample.high)
    assert near(busy.tokens, alone.tokens.low, alone.tokens.high)
    assert near(rates_of_runs([make_run()], make_config(), 9.0).sample, alone.sample.low, 2 * alone.sample.high)

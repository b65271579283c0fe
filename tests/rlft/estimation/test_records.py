"""Rates of past runs, by hand: see `make_run` for what its steps take."""

from dataclasses import replace

import pytest

from rlft.estimation.counts import counts_of
from rlft.estimation.records import changed_settings, fits, rates_of_runs
from rlft.estimation.work import TaskCounts, work_of
from tests.rlft.estimation.made import make_config, make_run, near

ONE = (0.75, 1.35)  # how one run is widened


TASKS = TaskCounts(7, 10, 20)  # of `make_run`


def rates_for(runs, config, busy=1.0, tasks=TASKS):
    """Return the rates of a config with as many tasks as the past runs had."""
    return rates_of_runs(runs, config, work_of(config, tasks), busy)


def test_rates_of_one_run():
    rates = rates_for([make_run()], make_config())
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
    # 3 validations of 7 tasks and 2 to 3 arms of 20, 20 tokens each; 7 * 8 of the baseline as long as those of rounds.
    assert near(rates.evaluated, (20 * 61 + 30 * 56) * ONE[0], (20 * 81 + 30 * 56) * ONE[1])
    assert near(rates.controls, 0)
    assert near(rates.memory, 1e9, 1.1e9)


def test_several_runs_give_their_range_which_is_widened_less():
    runs = [make_run(), make_run("second", 1.5)]
    rates = rates_for(runs, make_config())
    assert near(rates.sample, 0.4 * 0.8, 0.6 * 1.25)
    three = rates_for([*runs, make_run("third", 1.25)], make_config())
    assert near(three.sample, 0.4 * 0.85, 0.6 * 1.2)


def test_attempts_that_may_be_longer_or_shorter():
    longer = rates_for([make_run()], make_config(rollout={"max_completion_length": 300}))
    assert near(longer.tokens, 30 * ONE[0], 90 * ONE[1])
    assert near(longer.train, 0.2 * ONE[0], 0.6 * ONE[1])
    assert near(longer.setup, 5 * ONE[0], 5 * ONE[1])
    shorter = rates_for([make_run()], make_config(rollout={"max_completion_length": 50}))
    assert near(shorter.tokens, 15 * ONE[0], 30 * ONE[1])


def test_more_attempts_in_evaluations():
    asked = {"num_generations": 4, "temperature": 1.0}
    rates = rates_for([make_run()], make_config(evaluation=asked))
    # Four times the attempts take four times as long, or 2.5 times where half of the time is there for any number.
    assert near(rates.validation, 7.5 * ONE[0], 12 * ONE[1])


def test_more_and_fewer_tasks_in_evaluations():
    rates = rates_for([make_run()], make_config(), tasks=TaskCounts(validation=70, test=10, final=5))
    assert near(rates.validation, 5.5 * 3 * ONE[0], 30 * ONE[1])
    assert near(rates.arm, 6 / 4 * ONE[0], 6 * 5 / 8 * ONE[1])
    evaluated = 20 * 3 * 70 + 30 * 70 * 8  # three validations; the baseline, 8 attempts at each
    assert near(rates.evaluated, (evaluated + 20 * 10) * ONE[0], (evaluated + 20 * 15) * ONE[1])


def test_dynamic_sampling_trains_on_more_groups_than_a_run_without_did():
    rates = rates_for([make_run()], make_config(training={"max_num_gen_batches": 3}))
    assert near(rates.sample, 0.4 * ONE[0], 0.4 * ONE[1])  # of each of the 10 to 30 that are sampled
    assert near(rates.train, 0.2 * ONE[0], 0.6 * ONE[1])  # a third of the groups may have had variance
    # A run that sampled 20 attempts a round, of which it trained on 10.
    config, run = make_config(training={"max_num_gen_batches": 3}), make_run()
    steps = [replace(each, attempts=20) if each.name.startswith("generate_rollouts_r0") else each for each in run.steps]
    dynamic = rates_for([replace(run, steps=steps, settings=config.model_dump(mode="json"))], config)
    assert near(dynamic.sample, 0.2 * ONE[0], 0.2 * ONE[1])
    assert near(dynamic.train, 0.2 * ONE[0], 0.2 * ONE[1])


def test_tasks_are_counted_by_what_was_attempted():
    counts = counts_of(make_run(), make_config())
    assert (counts.validation, counts.test, counts.final) == (7, 0, 20)


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": {"splits": {"validation": 400}}},
        {"tasks": {"path": "other.jsonl"}},
        {"evaluation": {"pass_at_k": True}},  # which tasks of `test` there are was not to be seen
    ],
)
def test_tasks_are_counted_anew_where_there_may_be_others(change):
    assert counts_of(make_run(), make_config(**change)) is None


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
    alone, busy = (rates_for([make_run()], make_config(), each) for each in (1.0, 1.5))
    assert near(busy.sample, alone.sample.low, 1.5 * alone.sample.high)
    assert near(busy.tokens, alone.tokens.low, alone.tokens.high)
    assert near(rates_for([make_run()], make_config(), 9.0).sample, alone.sample.low, 2 * alone.sample.high)


def test_training_takes_longer_or_shorter_with_other_trainers_and_nothing_else_does():
    config, two = make_config(), make_config(distributed={"engine": "ray", "trainers": 2})
    work = work_of(config, TaskCounts(7, 10, 20))
    alone, together = (rates_of_runs([make_run()], each, work) for each in (config, two))
    assert near(together.train, 0.75 * alone.train.low, 1.5 * alone.train.high)
    assert together.sample == alone.sample
    assert rates_of_runs([make_run(distributed={"engine": "ray", "trainers": 2})], two, work).train == alone.train

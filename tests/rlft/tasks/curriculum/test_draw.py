"""Which tasks a round gets, which may replace them, and what is said of each."""

from collections import Counter

import pytest

from rlft.config import TrainingConfig
from rlft.tasks.curriculum import DrawnTask, PassRates, draw_round, is_plain, tasks_of_round
from rlft.tasks.splits import TRACE
from tests.factories import make_task, make_task_set

TASKS = make_task_set(
    *(make_task(f"t{number}") for number in range(20)),
    *(make_task(f"{split}{number}", split=split) for split in ("validation", "gate", "test") for number in range(20)),
)


def settings(**changes):
    return TrainingConfig(**({"curriculum": "pass_rate", "tasks_per_round": 5, "updates_per_round": 1} | changes))


def ids(drawn):
    return [task.task_id for task in drawn]


def draw(round=0, seed=0, rates=None, **changes):
    return draw_round(TASKS, settings(**changes), round=round, seed=seed, rates=rates)


def test_what_needs_no_draw():
    assert is_plain(TrainingConfig())
    assert not is_plain(settings())
    assert not is_plain(TrainingConfig(max_num_gen_batches=2))


@pytest.mark.parametrize("round", range(6))
def test_a_uniform_draw_is_that_of_the_epochs(round):
    expected = [task.id for task in tasks_of_round(TASKS, round=round, count=5, seed=3)]
    found = draw(round, 3, curriculum="uniform", max_num_gen_batches=3)
    assert ids(found.tasks) == expected
    assert len(found.reserves) == 10
    assert not {*ids(found.reserves)} & {*expected}
    assert len({*ids(found.reserves)}) == 10
    assert {task.why for task in (*found.tasks, *found.reserves)} == {"uniform"}
    assert found.metrics() == {}
    assert draw(round, 3, curriculum="uniform").reserves == ()


def test_the_reserves_of_rounds_differ():
    first, second = (draw(round, curriculum="uniform", max_num_gen_batches=3).reserves for round in (0, 4))
    assert ids(first) != ids(second)


@pytest.mark.parametrize("curriculum", ["uniform", "pass_rate"])
def test_only_train_tasks_are_drawn(curriculum):
    found = draw(curriculum=curriculum, tasks_per_round=15, max_num_gen_batches=3)
    drawn = [*found.tasks, *found.reserves]
    assert {task.id for task in TASKS.split("train")} == {*ids(drawn)}
    assert len(drawn) == 20  # each once, though 15 reserves more would be allowed


def test_a_draw_follows_from_its_arguments():
    rates = PassRates({"t0": (1.0, 1.0, 0)})
    assert draw(1, 0, rates) == draw(1, 0, rates)
    assert ids(draw(1, 0, rates).tasks) != ids(draw(2, 0, rates).tasks)
    assert ids(draw(1, 0, rates).tasks) != ids(draw(1, 1, rates).tasks)


def test_tasks_of_middling_difficulty_come_most():
    # Beta(101, 101), Beta(1, 201) and what is new: weights of 0.2488, 0.00493 and 1/6
    rates = PassRates({"t0": (100.0, 100.0, 0), "t1": (0.0, 200.0, 0)})
    drawn = Counter(task for seed in range(3000) for task in ids(draw(0, seed, rates, tasks_per_round=1).tasks))
    total = 0.2488 + 0.00493 + 18 / 6
    assert drawn["t0"] / 3000 == pytest.approx(0.2488 / total, abs=0.015)
    assert drawn["t1"] / 3000 == pytest.approx(0.00493 / total, abs=0.005)
    assert drawn["t2"] / 3000 == pytest.approx(1 / 6 / total, abs=0.015)


def test_why_each_task_was_drawn():
    rates = PassRates({"t0": (18.0, 0.0, 0), "t1": (2.0, 2.0, 0), "t2": (18.0, 0.0, 0)}, ("t0", "t2"))
    # Beta(19, 1) = 0.95 is retired. After two half-lives Beta(5.5, 1) = 0.85 is not.
    now = draw(0, 0, rates, tasks_per_round=20)
    later = draw(40, 0, rates, tasks_per_round=20)
    whys = {task.task_id: task.why for task in now.tasks}
    assert [whys["t0"], whys["t1"], whys["t2"], whys["t3"]] == ["retired", "learnability", "retired", "new"]
    assert {*ids(now.tasks[-2:])} == {"t0", "t2"}  # they come last, as no other is left
    assert (now.retired, later.retired) == (2, 0)
    assert {task.task_id: task.why for task in later.tasks}["t0"] == "returned"
    assert now.metrics() == {
        "curriculum/expected_pass_rate": pytest.approx((0.95 * 2 + 0.5 * 18) / 20),
        "curriculum/new": 17.0,
        "curriculum/returned": 0.0,
        "curriculum/retired": 2.0,
    }
    assert (
        DrawnTask("t1", "learnability", 0.5, 4.0).reason() == "learnability: expected pass rate 0.50 from 4.0 attempts"
    )
    assert DrawnTask("t3", "new", 0.5).reason() == "new"


def test_a_retired_task_is_not_drawn_while_others_are_left():
    rates = PassRates({f"t{number}": (18.0, 0.0, 0) for number in range(10)})
    for seed in range(20):
        assert not {*ids(draw(0, seed, rates).tasks)} & rates.own.keys()


def test_more_tasks_than_there_are_come_again():
    found = draw(tasks_per_round=45, max_num_gen_batches=2)
    assert Counter(Counter(ids(found.tasks)).values()) == {2: 15, 3: 5}
    assert found.reserves == ()


def test_a_round_has_no_more_tasks_from_use_than_their_share_of_the_train_tasks():
    used = [make_task(f"u{number}", info={TRACE: str(number)}) for number in range(10)]
    tasks = make_task_set(*(make_task(f"t{number}") for number in range(20)), *used)
    rates = PassRates({f"t{number}": (100.0, 1.0, 0) for number in range(20)})  # only what was used is new
    for seed in range(20):
        drawn = draw_round(tasks, settings(tasks_per_round=6), round=0, seed=seed, rates=rates)
        assert sum(task.task_id.startswith("u") for task in drawn.tasks) == 2  # a third, as of all train tasks

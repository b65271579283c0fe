from pathlib import Path

from rlft.config.file import load_config
from rlft.estimation.span import Span
from rlft.estimation.work import TaskCounts, validations_after, work_of
from tests.rlft.estimation.made import make_config

TINY = Path(__file__).parents[2] / "fixtures" / "configs" / "tiny.yaml"


def test_the_work_of_the_tiny_config():
    # 3 rounds of 8 tasks, 4 attempts each; 12 tasks for each of 4 splits; validations before, after round 2 and 3.
    # Base, warm start and trained model are evaluated, and an sft control and a champion if there are.
    work = work_of(load_config(TINY), TaskCounts(validation=12, test=12, final=36))
    assert (work.rounds, work.attempts, work.sampled) == (3, 32, Span(32, 32))
    assert (work.baseline, work.validations, work.validation) == (48, 3, 12)
    assert (work.arms, work.arm, work.often) == (Span(3, 5), 36, 0)
    # 9 of rounds, 8 beside them, the warm start; 3 for each of 1 + 3 + 3 to 5 evaluations; 0 to 2 for controls.
    assert work.steps == Span(39, 47)  # a run had 43


def test_pass_at_k_is_of_two_models():
    config = make_config(evaluation={"pass_at_k": True}, baseline={"num_tasks": 50, "num_generations": 8})
    assert work_of(config, TaskCounts(10, 30, 40)).often == 2 * 30 * 8
    assert work_of(config, TaskCounts(10, 90, 40)).often == 2 * 50 * 8


def test_arms_by_what_the_config_says():
    counts = TaskCounts(10, 10, 10)
    assert work_of(make_config(), counts).arms == Span(2, 3)  # base and trained; a champion
    assert work_of(make_config(controls=["rejection_sampling"]), counts).arms == Span(3, 4)
    assert work_of(make_config(controls=["sft", "few_shot"]), counts).arms == Span(2, 5)  # their answers may be missing
    assert work_of(make_config(controls=None), counts).arms == Span(3, 6)
    assert work_of(make_config(controls=["few_shot", {"model": "y"}]), counts).arms == Span(3, 5)


def test_validations_after_rounds():
    # After every third round and after the last.
    assert [validations_after(rounds, 3) for rounds in (1, 3, 4, 6, 7)] == [1, 1, 2, 2, 3]


def test_dynamic_sampling_may_sample_as_often_as_it_is_allowed_to():
    work = work_of(make_config(training={"max_num_gen_batches": 3}), TaskCounts(10, 10, 10))
    assert (work.attempts, work.sampled) == (10, Span(10, 30))

"""The time and memory of several trainers, by hand."""

import pytest

from rlft.config import DistributedConfig
from rlft.estimation.span import Span, exactly
from rlft.estimation.trainers import carried_over, held_with_trainers, time_share, trainer_memory
from tests.rlft.estimation.made import near


def of(trainers: int, address: str | None = None) -> DistributedConfig:
    return DistributedConfig(engine="ray", trainers=trainers, address=address)


@pytest.mark.parametrize(
    ("trainers", "on_gpu", "low", "high"),
    # 2 and 4 at best in a half and a quarter of the time; at most a little more than the 1/1.57 that two took, and 2/5
    [(2, True, 1 / 2, 2 / 3), (4, True, 1 / 4, 2 / 5), (1, True, 1, 1), (2, False, 0.75, 1.5), (1, False, 1, 1)],
)
def test_training_takes_a_share_of_the_time_of_one(trainers, on_gpu, low, high):
    assert near(time_share(of(trainers), on_gpu=on_gpu), low, high)


def test_the_time_of_past_runs_is_carried_over_from_their_number_of_trainers():
    assert carried_over(None, None, on_gpu=True) == exactly(1.0)
    assert carried_over(of(4), of(4), on_gpu=True) == exactly(1.0)
    assert carried_over(None, of(1), on_gpu=True) == exactly(1.0)
    assert near(carried_over(None, of(2), on_gpu=True), 1 / 2, 2 / 3)
    assert near(carried_over(of(2), None, on_gpu=True), 3 / 2, 2)
    assert near(carried_over(of(2), of(4), on_gpu=True), 1 / 4 * 3 / 2, 2 / 5 * 2)


def test_each_trainer_has_its_part_of_what_one_holds_or_as_much():
    held = Span(8.0, 12.0)
    assert trainer_memory(held, of(4)) == Span(2.0, 12.0)
    assert trainer_memory(held, None) is None
    assert trainer_memory(None, of(4)) is None
    assert held_with_trainers(held, None, on_gpu=False) == held
    assert held_with_trainers(None, of(4), on_gpu=False) is None
    assert held_with_trainers(held, of(4), on_gpu=False) == Span(8.0, 12.0 + 4 * 12.0)
    assert held_with_trainers(held, of(4), on_gpu=True) == Span(8.0, 24.0)

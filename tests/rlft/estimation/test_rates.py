"""What follows from a probe, with lines as the probe writes them."""

import pytest

from rlft.config import DistributedConfig
from rlft.estimation.probing import Probed
from rlft.estimation.rates import counts_of_probe, rates_of_probe, time_share
from rlft.estimation.span import Span
from rlft.estimation.work import work_of
from tests.rlft.estimation.made import BEFORE, make_config, make_round, near

CHANGES = {"training": {"tasks_per_round": 8, "num_generations": 4}, "rollout": {"batch_size": 16}}  # 32 attempts
CONFIG = make_config(**CHANGES)


def _rates(*rounds, config=CONFIG):
    probed = Probed([*BEFORE, *rounds], 20.0, False)
    return rates_of_probe(probed, config, work_of(config, counts_of_probe(probed)))


def test_the_largest_round_says_what_a_round_takes():
    rates = _rates(make_round(4, 9.0), make_round(32, 8.0))
    assert near(rates.sample, 0.6 * 0.25, 1.6 * 0.25)  # 8 s for 32 attempts, however slow the first was
    assert near(rates.tokens, 6, 16)
    # Half of the groups differed: at least as many are trained on, at most all.
    assert near(rates.train, 0.6 * 0.0625 * 0.5, 1.6 * 0.0625)


def test_evaluations_take_what_their_attempts_take():
    rates = _rates(make_round(32, 8.0))
    each = Span(0.6 * 8.5 / 32, 1.6 * 8.5 / 32)
    assert near(rates.validation, *(10 * end for end in (each.low, each.high)))
    assert near(rates.arm, *(50 * end for end in (each.low, each.high)))
    # An attempt of a group shares its prompt and encodes 20 tokens, a single one 50: up to 2.5 times the 8 s of 32.
    rates = _rates(make_round(32, 8.0, evaluated=50))
    assert near(rates.validation, 10 * 0.6 * 8.5 / 32, 10 * 1.6 * (2.5 * 8 + 0.5) / 32)


def test_memory_with_more_attempts_side_by_side_and_more_trainers():
    # 8 attempts added 0.2 GB to the model's 1.5: 16, the batch size, add 0.2 more; another copy of the weights is 0.5.
    # A pipeline takes 0.2 to 0.8 besides.
    memory = _rates(make_round(8, 1.0)).memory
    assert near(memory, 1.7e9 + 2e8, 1.7e9 + 0.2e9 + 0.5e9 + 8e8)
    two = make_config(**CHANGES, distributed={"engine": "ray", "trainers": 2})
    assert near(_rates(make_round(8, 1.0), config=two).memory, 1.9e9, 3 * 3.2e9)  # each may hold as much as the run
    on_gpu = [{**line, "gpu_memory": 1.0} for line in BEFORE]
    probed = Probed([*on_gpu, make_round(16, 1.0, gpu_memory=2.0)], 20.0, False)
    assert near(rates_of_probe(probed, two, work_of(two, counts_of_probe(probed))).memory, 2.0, 2 * 2.0)


@pytest.mark.parametrize(
    ("trainers", "on_gpu", "low", "high"),
    # 2 and 4 at best in a half and a quarter of the time; at most a little more than the 1/1.57 that two took, and 2/5
    [(2, True, 1 / 2, 2 / 3), (4, True, 1 / 4, 2 / 5), (1, True, 1, 1), (2, False, 0.75, 1.5), (1, False, 1, 1)],
)
def test_training_takes_a_share_of_the_time_of_one(trainers, on_gpu, low, high):
    assert near(time_share(DistributedConfig(engine="ray", trainers=trainers), on_gpu=on_gpu), low, high)

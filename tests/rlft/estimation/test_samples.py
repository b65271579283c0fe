"""What follows from a probe, with lines as the probe writes them."""

from rlft.estimation.probing import Probed
from rlft.estimation.samples import counts_of_probe, rates_of_probe
from rlft.estimation.span import Span
from rlft.estimation.work import work_of
from tests.rlft.estimation.made import make_config, near

CONFIG = make_config(training={"tasks_per_round": 8, "num_generations": 4}, rollout={"batch_size": 16})  # 32 attempts
HELD = {"memory": 1e9, "gpu_memory": None}
BEFORE = [
    {"kind": "tasks", "seconds": 2.0, "validation": 10, "test": 20, "final": 50, **HELD},
    {"kind": "model", "seconds": 3.0, "memory": 1.5e9, "gpu_memory": None},
]


def _round(attempts, seconds, **changes):
    line = {
        "kind": "round",
        "attempts": attempts,
        "sample": seconds,
        "score": 0.5,
        "train": 2.0,
        "tokens": 10 * attempts,
        "encoded": 20 * attempts,
        "of_sequences": 20 * attempts,
        "evaluated": 20,
    }
    return {**line, "varied": 0.5, "memory": 1.7e9, "gpu_memory": None, **changes}


def _rates(*rounds, busy=1.0, config=CONFIG):
    probed = Probed([*BEFORE, *rounds], 20.0, False, busy)
    return rates_of_probe(probed, config, work_of(config, counts_of_probe(probed)))


def test_a_whole_round_says_what_a_round_takes():
    rates = _rates(_round(4, 9.0), _round(32, 8.0))
    assert near(rates.sample, 0.6 * 0.25, 1.6 * 0.25)  # 8 s for 32 attempts, however slow the first was
    assert near(rates.tokens, 6, 16)
    # Half of the groups differed: at least as many are trained on, at most all.
    assert near(rates.train, 0.6 * 0.0625 * 0.5, 1.6 * 0.0625)


def test_a_part_of_a_round_is_carried_over_by_a_line():
    # 8 attempts in 3 s, 16 in 4 s: 32 take 6 s by the line, and 8 s at the rate of the largest.
    rates = _rates(_round(4, 9.0), _round(8, 3.0), _round(16, 4.0))
    assert near(rates.sample, 0.6 * 6 / 32, 1.6 * 8 / 32)


def test_evaluations_take_what_their_attempts_take():
    rates = _rates(_round(32, 8.0))
    each = Span(0.6 * 8.5 / 32, 1.6 * 8.5 / 32)
    assert near(rates.validation, *(10 * end for end in (each.low, each.high)))
    assert near(rates.arm, *(50 * end for end in (each.low, each.high)))
    # An attempt of a group shares its prompt and encodes 20 tokens, a single one 50: up to 2.5 times the 8 s of 32.
    rates = _rates(_round(32, 8.0, evaluated=50))
    assert near(rates.validation, 10 * 0.6 * 8.5 / 32, 10 * 1.6 * (2.5 * 8 + 0.5) / 32)


def test_memory_with_more_attempts_side_by_side():
    # 8 attempts added 0.2 GB to the model's 1.5: 16, the batch size, add 0.2 more; another copy of the weights is 0.5.
    memory = _rates(_round(8, 1.0)).memory
    assert near(memory, 1.7e9 + 2e8, 1.7e9 + 0.2e9 + 0.5e9 + 8e8)

"""benchmarks.calibration: its populations have the means they say, and a few cells hold."""

import numpy as np
import pytest

from benchmarks.calibration import (
    POPULATIONS,
    binary,
    calibration,
    clustered,
    loss,
    measure,
    weekly,
    weekly_losses,
)
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, Range, bounds


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda population: population.name)
def test_a_population_has_its_mean(population):
    sums, sizes = population.draw(np.random.default_rng(1), 2000, 100)
    spread = np.sqrt(((sums - population.mean * sizes) ** 2).sum()) / sizes.sum()
    assert sums.sum() / sizes.sum() == pytest.approx(population.mean, abs=5 * spread)
    assert (sums / sizes).min() >= population.range.low
    assert (sums / sizes).max() <= population.range.high


@pytest.mark.parametrize("population", [binary(0.03), clustered(0.5, 0.5, 20), loss(0.03, 1.0)], ids=lambda p: p.name)
def test_the_interval_holds_as_often_as_it_says(population):
    # 4,000 evaluations: three standard errors of 0.95 are 0.01
    found = measure(population, 100, 4000)
    assert found["coverage"] >= 0.93
    assert found["above"] <= 0.04


def test_twenty_looks_rarely_promote_a_model_that_is_no_better():
    # 0.018 of 5,000 series; of 500 the standard error is 0.006. At 95 % each it were 16 of 100 series.
    assert weekly(0.5, 0.3, 200, 1, 500) <= 0.05


@pytest.mark.parametrize(("rate", "groups"), [(0.03, 2000), (0.2, 500), (0.01, 5000)])
def test_nor_where_rare_losses_outweigh_many_small_gains(rate, groups):
    # Without the term for skewness 6.9, 6.7 and 5.0 of 100 series. Of independent runs at 0.25 % it were 4.88.
    assert weekly_losses(rate, 1.0, groups) <= 0.05


def test_series_with_rare_losses_are_those_of_drawn_runs():
    # 20,000 runs of 200 tasks: the chance of each is some 0.002, with a standard error of 0.0003.
    drawn = np.random.default_rng(0).binomial(200, 0.2, 20_000)
    lost = np.arange(200) < drawn[:, None]
    low, _ = bounds(
        np.where(lost, -1.0, 0.25), np.ones(lost.shape), Range(-1, 1), imagined=IMAGINED_OF_DIFFERENCE, confidence=0.995
    )
    assert 1 - (1 - (low > 0).mean()) ** 20 == pytest.approx(weekly_losses(0.2, 1.0, 200), abs=0.02)


@pytest.mark.slow
def test_all_cells_are_counted():
    found = calibration(20, (30,))
    assert len(found["cells"]) == len(POPULATIONS)
    assert found["weekly_false_promotion"] == max(found["series"].values())
    assert found["worst_coverage"] == min(cell["coverage"] for cell in found["cells"])

"""benchmarks.noninferiority: its populations lose what they say, and a few cells hold."""

import numpy as np
import pytest

from benchmarks.noninferiority import (
    POPULATIONS,
    holm,
    paired,
    suite_cells,
)
from rlft.evaluation.comparison import compare_slices
from rlft.types import EvaluationReport


@pytest.mark.parametrize("kind", POPULATIONS)
@pytest.mark.parametrize(("rate", "loss", "churn"), [(0.5, 0.05, 0.1), (0.98, 0.02, 0.05), (0.05, 0.05, 0.2)])
def test_a_population_loses_what_it_says(kind, rate, loss, churn):
    sums, sizes = POPULATIONS[kind](np.random.default_rng(1), (2000, 100), rate, loss, churn)
    spread = np.sqrt(((sums + loss * sizes) ** 2).sum()) / sizes.sum()
    assert sums.sum() / sizes.sum() == pytest.approx(-loss, abs=5 * spread)
    assert np.abs(sums / sizes).max() <= 1


def test_a_loss_of_the_margin_is_rarely_passed():
    # 400 simulations of a share of at most 0.03: three standard errors are 0.026
    assert max(cell["false_1"] for cell in suite_cells(400, (20, 50))) <= 0.06


def test_many_simulations_at_once_are_judged_as_one_decision():
    generator = np.random.default_rng(3)
    drawn = [paired(generator, (8, 40), 0.6, loss, 0.1) for loss in (0.4, 0.2, 0.0)]
    worse = holm([sums for sums, _ in drawn], [sizes for _, sizes in drawn])
    for number in range(8):
        differences = np.concatenate([sums[number] for sums, _ in drawn])
        names = [f"{i:03d}" for i in range(120)]
        ours = {name: float(change >= 0) for name, change in zip(names, differences, strict=True)}
        theirs = {name: float(change < 0 or change == 0) for name, change in zip(names, differences, strict=True)}
        one, other = (EvaluationReport("gate", "p", 1, {}, {"accuracy": each}) for each in (ours, theirs))
        slices = {str(i): names[40 * i : 40 * i + 40] for i in range(3)}
        found = [each.is_worse for each in compare_slices(one, other, "accuracy", slices)]
        assert found == list(worse[number])

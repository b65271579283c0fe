import numpy as np
import pytest
from scipy.stats import norm

from rlft.power import DISCORDANCE, gate_sentence, smallest_gain
from rlft.statistics import IMAGINED_OF_DIFFERENCE, SHARE, bounds


@pytest.mark.parametrize(("groups", "confidence"), [(500, 0.95), (2000, 0.95), (2000, 0.995)])
def test_with_many_groups_it_is_the_textbooks_formula(groups, confidence):
    # (z of the level + z of the power) * sqrt(discordance / groups): (1.960 + 0.842) * sqrt(0.3 / 2000) = 0.0343.
    textbook = (norm.ppf((1 + confidence) / 2) + norm.ppf(0.8)) * np.sqrt(DISCORDANCE / groups)
    assert smallest_gain(groups, confidence=confidence) == pytest.approx(textbook, rel=0.04)


@pytest.mark.parametrize(("groups", "confidence"), [(30, 0.95), (200, 0.95), (200, 0.995)])
def test_the_gain_is_found_about_four_times_out_of_five(groups, confidence):
    gain = smallest_gain(groups, confidence=confidence)
    assert gain is not None
    differing = max(DISCORDANCE, gain)
    chances = [(differing + gain) / 2, (differing - gain) / 2, 1 - differing]
    drawn = np.random.default_rng(0).choice([1.0, -1.0, 0.0], size=(4000, groups), p=chances)
    low, _ = bounds(
        drawn, np.ones_like(drawn), SHARE.minus(SHARE), imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence
    )
    assert 0.75 < (low > 0).mean() < 0.9  # its standard error is 0.006


def test_a_gate_that_sees_nothing_says_so():
    assert smallest_gain(1) is None
    assert smallest_gain(5) is None
    assert gate_sentence(5, 5, 5.0, metric="accuracy").endswith("no gain is found four times out of five")


def test_the_sentence_names_what_it_assumes():
    found = gate_sentence(200, 200, 200.0, metric="accuracy")
    gain = smallest_gain(200)
    assert gain is not None
    assert found == (
        f"the gate has 200 tasks in 200 groups: at one look a true gain of {100 * gain:.1f} points is found four times "
        "out of five, if the models differ on 30% of the tasks"
    )
    stricter = gate_sentence(200, 60, 40.0, metric="accuracy", looks=20)
    assert "in 60 groups, which count as 40 of equal size: at the level for 20 looks at one gate" in stricter


def test_a_reward_has_its_own_unit():
    # (1.960 + 0.842) / sqrt(100) = 0.28
    assert "0.28 standard deviations" in gate_sentence(100, 100, 100.0, metric="reward")

import numpy as np
import pytest
from scipy.stats import norm

from rlft.evaluation.power import DISCORDANCE, gate_sentence, smallest_gain
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, SHARE, bounds


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


@pytest.mark.parametrize("minimum", [0.02, 0.05, 0.1])
def test_a_gain_that_must_exceed_a_minimum_is_found_as_often(minimum):
    # The 14.6 points that 200 groups find above 0 were found above 0.02, 0.05 and 0.1 in 0.59, 0.25 and 0.02 of cases.
    gain = smallest_gain(200, confidence=0.995, minimum=minimum)
    assert gain is not None
    chances = [(DISCORDANCE + gain) / 2, (DISCORDANCE - gain) / 2, 1 - DISCORDANCE]
    drawn = np.random.default_rng(0).choice([1.0, -1.0, 0.0], size=(4000, 200), p=chances)
    low, _ = bounds(drawn, np.ones_like(drawn), SHARE.minus(SHARE), imagined=IMAGINED_OF_DIFFERENCE, confidence=0.995)
    assert 0.75 < (low > minimum).mean() < 0.85  # its standard error is 0.006
    assert smallest_gain(200, minimum=0.99) is None


def test_a_gate_that_sees_nothing_says_so():
    assert smallest_gain(1) is None
    assert smallest_gain(5) is None
    assert gate_sentence(5, 5, 5.0, metric="accuracy") == "with 5 gate tasks no gain is found"


def test_the_sentence_names_one_number():
    gain = smallest_gain(200)
    assert gain is not None
    found = (
        f"with 200 gate tasks gains above about {100 * gain:.0f} points over a rival are found four times out of five"
    )
    assert gate_sentence(200, 200, 200.0, metric="accuracy") == found
    stricter = gate_sentence(200, 60, 40.0, metric="accuracy", looks=20)
    assert "with 200 gate tasks in 60 groups that count as 40 of equal size gains" in stricter
    assert stricter.endswith("at the level for 20 looks at one gate")
    # 58 tasks of which 30 % differ: what is found four times out of five at 20 looks is 29 points
    assert "gains above about 29 points" in gate_sentence(58, 58, 58.0, metric="accuracy", looks=20)


def test_no_power_is_said_of_a_reward():
    none = "it is not known which gains of the reward are found, as that depends on its spread"
    assert gate_sentence(100, 100, 100.0, metric="reward").endswith(none)

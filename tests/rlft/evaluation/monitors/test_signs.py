from dataclasses import replace

import numpy as np
import pytest

from rlft.evaluation.diagnosis.hacking import known_attacks, part_divergence, repetition, tool_spam, unscored_attempts
from tests.rlft.evaluation.monitors.runs import GROUPS, SIZE, history, rounds

UP, DOWN, STILL = np.linspace(0.1, 0.9, 12), np.linspace(0.8, 0.2, 12), [0.5, 0.51] * 6


def parts(weights=None, level=0.01, **curves):
    reports = rounds(**{f"rewards__{name}__mean": curve for name, curve in curves.items()})
    return part_divergence(history(reports, weights=weights or {}, level=level))


def test_parts_that_move_apart():
    found = parts(long=UP, exact=DOWN)
    assert found is not None
    # The thirds of a fall from 0.8 to 0.2 in twelve rounds: 0.8 - 0.6 * 1.5 / 11, and 0.2 plus as much.
    assert found.what == "The part `long` of the reward has risen, and `exact` went from 0.72 to 0.28."
    assert parts(long=UP, exact=STILL) is None
    assert parts(long=UP, exact=UP) is None
    assert parts(long=DOWN, exact=DOWN) is None
    assert parts(long=UP, exact=np.linspace(0.8, 0.7, 12)) is None  # an eighth is no quarter


def test_all_parts_share_the_level():
    # Seven rounds in perfect order come about in one of 7! = 5040 orders, 0.0002: two parts may have half of the level.
    curves = {"long": UP[:7], "exact": DOWN[:7]}
    assert parts(level=0.0005, **curves) is not None
    assert parts(level=0.0003, **curves) is None


def test_a_penalty_that_falls_is_no_loss_and_a_metric_is_not_paid():
    assert parts({"errors": -1.0, "exact": 1.0}, exact=UP, errors=DOWN) is None
    assert parts({"errors": -1.0, "exact": 1.0}, exact=UP, errors=np.linspace(0.1, 0.9, 12)) is not None
    assert parts({"calls": 0.0, "exact": 1.0}, exact=UP, calls=DOWN) is None


@pytest.mark.parametrize(
    ("monitor", "metric", "seen", "unseen"),
    [
        (repetition, "completions__repetition_ratio", np.linspace(0.1, 0.8, 12), np.linspace(0.0, 0.45, 12)),
        (repetition, "completions__repetition_ratio", np.linspace(0.2, 0.9, 12), np.linspace(0.6, 0.9, 12)),
        (tool_spam, "tools__call_frequency", np.linspace(1, 5, 12), np.linspace(0.1, 1.0, 12)),
        (tool_spam, "tools__call_frequency", np.linspace(1, 5, 12), np.linspace(3, 5, 12)),
        (tool_spam, "tools__call_frequency", np.linspace(0, 2, 12), [0, 4] * 6),
    ],
)
def test_a_sign_is_as_large_as_its_bounds_and_a_trend(monitor, metric, seen, unseen):
    assert monitor(history(rounds(**{metric: seen}))) is not None
    assert monitor(history(rounds(**{metric: unseen}))) is None
    assert monitor(history(rounds(**{metric: seen[::-1]}))) is None
    assert monitor(history(rounds(**{metric: seen[:2]}))) is None


def test_attacks_are_a_tenth_of_the_attempts_beyond_chance():
    # 3 rounds of 16 tasks in the last third, as no more are looked at: 48 groups. 14 of them are 29 %, whose lower
    # bound at 99 % is 15 %; 9 are 19 %, whose bound is 8 %.
    many, few = [0.0] * 6 + [14 / 48] * 3, [0.0] * 6 + [9 / 48] * 3
    found = known_attacks(history(rounds(attacks__paid_ratio=many)))
    assert found is not None
    assert found.what.startswith("29% of the attempts in the last third")
    assert known_attacks(history(rounds(attacks__paid_ratio=few))) is None
    assert known_attacks(history(rounds(attacks__paid_ratio=many[-2:]))) is None


def failing(share, fate="errored:reward", rounds_=9):
    """Rounds in whose last third so many attempts of each 40 groups of 8 have this fate, and none before."""
    reports, count = rounds(reward=[0.5] * rounds_), round(share * GROUPS * SIZE)
    fates = {str(place): fate if place < count else "trained" for place in range(GROUPS * SIZE)}
    third = rounds_ // 3
    return history([*reports[:-third], *(replace(report, fates=fates) for report in reports[-third:])])


def test_attempts_on_which_the_reward_fails_are_a_twentieth_beyond_chance():
    # 3 rounds of 320 attempts in the last third: 8 % of 960 have a lower bound of 6.1 % at 99 %, and 6 % one of 4.3 %.
    found = unscored_attempts(failing(0.08))
    assert found is not None
    assert found.what.startswith("The reward failed on 8% of the attempts in the last third of the rounds.")
    assert unscored_attempts(failing(0.06)) is None
    assert unscored_attempts(failing(0.15, "errored:engine")) is None  # not a matter of the reward
    assert unscored_attempts(failing(0.15, "filtered:no_variance")) is None
    assert unscored_attempts(history(failing(0.15).rounds[-2:])) is None  # two rounds have no third

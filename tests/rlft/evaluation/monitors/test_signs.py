from dataclasses import replace

import numpy as np
import pytest

from rlft.evaluation.diagnosis.monitors import known_attacks, repetition, tool_spam, unscored_attempts
from tests.rlft.evaluation.monitors.runs import GROUPS, SIZE, history, rounds


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

"""Runs in which nothing happens but chance, and that are too short to have risen, are not accused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.evaluation.diagnosis.history import History
from rlft.evaluation.diagnosis.monitors import diagnose
from rlft.types import TrainReport
from tests.rlft.evaluation.diagnosis.test_diagnose import validated

TRENDS = {
    "entropy collapse",
    "the reward pays for something else",
    "too few tasks",
    "length drift",
}
ONES = st.floats(0, 1)
PER_CELL = 12
AT_WILL = {
    "reward": st.floats(-10, 10),
    "accuracy": ONES,
    "reward_std": ONES,
    "entropy": st.floats(0, 12),
    "completions/mean_length": st.floats(1, 1e5),
    "rewards/exact/mean": ONES,
    "rewards/style/mean": ONES,
    "kl_update": st.floats(0, 1),
    "frac_reward_zero_std": ONES,
    "completions/duplicate_ratio": ONES,
    "completions/same_answer_ratio": ONES,
}


def noise(random: np.random.Generator, rounds: int, groups: int, size: int, solved: float) -> History:
    """A run of a policy that never changes: attempts are right by chance, and their lengths have a long tail.

    Half of the groups share one chance to be right, the others are each right or wrong as a whole, as tasks that are
    known or not are: so half of them and more have no variance. One attempt in 50 fails, a fifth is cut off and seldom
    right, a third repeats another, and a part of the reward is earned by one attempt in ten.
    """
    reports = []
    for number in range(rounds):
        known = random.random(groups) < solved
        chance = np.where(random.random(groups) < 0.5, solved, known)
        right = (random.random((groups, size)) < chance[:, None]).astype(float)
        style = (random.random((groups, size)) < 0.1).astype(float)
        lengths = random.lognormal(4, 1.5, (groups, size))
        fates = ["errored:reward:away" if each else "trained" for each in random.random(groups * size) < 0.02]
        total = right + 0.1 * style
        metrics = {
            "reward": total.mean(),
            "accuracy": right.mean(),
            "reward_std": total.std(axis=1, ddof=1).mean(),
            "frac_reward_zero_std": (np.ptp(right, axis=1) == 0).mean(),
            "rewards/exact/mean": right.mean(),
            "rewards/exact/std": right.std(ddof=1),
            "rewards/style/mean": style.mean(),
            "rewards/style/std": style.std(ddof=1),
            "completions/mean_length": lengths.mean(),
            "completions/clipped_ratio": (random.random((groups, size)) < 0.2).mean(),
            "completions/clipped_accuracy": float(random.random() < 0.2),
            "completions/duplicate_ratio": (random.random((groups, size)) < 0.33).mean(),
            "completions/same_answer_ratio": (random.random((groups, size)) < 0.5).mean(),
            "completions/unanswered_ratio": (random.random((groups, size)) < 0.2).mean(),
            "rewards/contradiction_ratio": 0.0,
            "tools/call_frequency": 1.0,
            "tools/failure_frequency": (random.random((groups, size)) < 0.2).mean(),
            "entropy": random.lognormal(-1, 0.5),
            "kl_update": random.lognormal(-6, 1),
            "clip_ratio/region_mean": random.uniform(0, 0.1),
            "sampling/sampling_logp_difference/mean": random.lognormal(-5, 0.7),
        }
        named = {name: float(value) for name, value in metrics.items()}
        reports.append(TrainReport(number, named, dict(enumerate(fates)), 1, 1.0, None))  # type: ignore[arg-type]
    looks = {number: validated(int(random.binomial(20, solved)), 20) for number in {0, rounds}}
    return History(reports, looks, "accuracy", 50, size, 1e-6, 256)


@pytest.mark.parametrize("rounds", [1, 2, 4, 8, 16])
def test_runs_of_chance_alone_are_not_accused(rounds):
    random = np.random.default_rng(rounds)
    accused = [
        [finding.cause for finding in diagnose(noise(random, rounds, groups, size, solved))]
        for groups in (1, 4, 16)
        for size in (4, 8)
        for solved in (0.2, 0.5, 0.7)
        for _ in range(PER_CELL)
    ]
    found = [causes for causes in accused if causes]
    assert len(found) <= 6, found  # of 216; 4,320 runs had 8 together (0.2 %), those of 16 rounds 0.8 %


@given(st.lists(st.fixed_dictionaries(AT_WILL), min_size=1, max_size=4), st.integers(1, 64))
def test_whatever_four_rounds_look_like_they_are_no_trend(rounds, groups):
    fates = {str(number): "trained" for number in range(8 * groups)}
    reports = [TrainReport(number, metrics, fates, 1, 1.0, None) for number, metrics in enumerate(rounds)]
    found = diagnose(History(reports, {}, "accuracy", 1, 8, 1e-6, 256))
    assert not TRENDS & {finding.cause for finding in found}


@given(st.sampled_from(["frac_reward_zero_std", "clip_ratio/region_mean", "completions/unanswered_ratio"]), ONES)
def test_whatever_three_groups_look_like_they_are_too_few(name, share):
    metrics = {name: share, "accuracy": 0.0, "reward": 0.0}
    report = TrainReport(0, metrics, {str(number): "trained" for number in range(24)}, 1, 1.0, None)
    # Three of three come about in 2.7 % where the share is 0.3, the lowest of these bounds.
    assert diagnose(History([report], {}, "accuracy", 100, 8, 1e-6, 256)) == []

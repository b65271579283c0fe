"""All monitors together: actions, looks, and that noise alone raises hardly any."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from rlft.config import MonitorsConfig
from rlft.config.training import Action
from rlft.evaluation.diagnosis.monitors import LEVEL, MONITORS, of_validation, watch
from rlft.evaluation.statistics import mean_interval
from rlft.types import EvaluationReport
from tests.rlft.evaluation.monitors.runs import history, rounds, validated
from tests.shipped import ROOT

ALL: dict[str, Action] = dict.fromkeys(MONITORS, "warn")
HACKED = history(
    rounds(reward=np.linspace(0.1, 0.9, 12), rewards__right__mean=np.linspace(0.6, 0.1, 12)),
    {0: validated(reward=10, rewards__right=60), 12: validated(reward=90, rewards__right=10)},
)
LONGER = rounds(completions__mean_length=np.linspace(10, 50, 12))


def names(found):
    return [alarm.monitor for alarm in found]


def test_every_monitor_has_its_setting():
    assert sorted(MonitorsConfig(honest="right").actions()) == sorted(MONITORS)


def test_alarms_have_the_action_of_the_config_and_say_when_and_where():
    found = watch(HACKED, MonitorsConfig(honest="right").actions(), rounds=12, validations=1)
    assert [(alarm.monitor, alarm.action) for alarm in found] == [("overoptimization", "stop"), ("reward_gap", "warn")]
    assert found[0].text.startswith("After 12 rounds: On 100 validation tasks")
    assert found[0].text.endswith("More: docs/guide/monitors.md#overoptimization")


def test_what_is_off_is_not_asked():
    without: dict[str, Action] = {**ALL, "overoptimization": "off"}
    assert names(watch(HACKED, without, rounds=12, validations=1)) == ["reward_gap"]
    assert watch(HACKED, {}, rounds=12, validations=1) == []


def test_what_looks_at_validation_alone_is_about_the_policy_whoever_sampled_the_rounds():
    # `identical_completions` looks at the attempts of the rounds as well.
    assert of_validation({**ALL, "overoptimization": "stop"}) == {"overoptimization": "stop"}
    assert names(watch(HACKED, of_validation(ALL), rounds=12, validations=1)) == ["overoptimization"]


def test_the_guide_has_a_place_for_every_monitor():
    page = (ROOT / "docs" / "guide" / "monitors.md").read_text()
    assert sorted(re.findall("^### (.+)$", page, re.MULTILINE)) == sorted(MONITORS)
    for name, action in MonitorsConfig(honest="right").actions().items():
        assert f"### {name}\n\nDefault `{action}`" in page


def test_before_the_first_round_there_is_nothing_to_say():
    assert watch(replace(HACKED, rounds=[]), ALL, rounds=12, validations=1) == []


def test_all_looks_share_the_level():
    # Twelve rounds in perfect order come about by chance in 2 / 12!, far below any level; seven in 1 / 5040.
    short = replace(HACKED, rounds=HACKED.rounds[:7], validations={0: HACKED.validations[0]})
    assert names(watch(short, ALL, rounds=12, validations=1)) == ["reward_gap"]  # 0.01 / 12 is above 1 / 5040
    assert watch(short, ALL, rounds=100, validations=1) == []  # 0.01 / 100 is not


def test_validations_have_looks_of_their_own():
    narrow = replace(HACKED, rounds=HACKED.rounds[:1])
    close = {0: validated(reward=10, rewards__right=60), 1: validated(reward=90, rewards__right=46)}
    near = replace(narrow, validations=close)
    assert names(watch(near, ALL, rounds=10_000, validations=1)) == ["overoptimization"]
    assert watch(near, ALL, rounds=1, validations=100_000) == []


def test_what_did_no_harm_is_not_said():
    still = {0: validated(reward=50, rewards__right=50), 12: validated(reward=52, rewards__right=52)}
    better = {0: validated(reward=50, rewards__right=50), 12: validated(reward=80, rewards__right=80)}
    assert names(watch(history(LONGER, still), ALL, rounds=12, validations=1)) == ["length_drift"]
    assert watch(history(LONGER, better), ALL, rounds=12, validations=1) == []


def test_what_was_gained_and_is_lost_again_excuses_nothing():
    def seen(*solved: int) -> list[str]:
        reports = {4 * place: validated(reward=count, rewards__right=count) for place, count in enumerate(solved)}
        return names(watch(history(LONGER, reports), ALL, rounds=12, validations=3))

    assert seen(40, 60, 80, 82) == []
    assert seen(40, 80, 80, 42) == ["length_drift"]  # it is no better than before training any more
    assert seen(20, 80, 80, 42) == ["length_drift"]  # it is, and measurably worse than it was
    assert seen(20, 80, 80, 76) == []


def test_harm_is_read_in_what_counts_and_not_in_what_is_trained_on():
    fooled = {
        0: validated(reward=50, accuracy=50, rewards__right=50),
        12: validated(reward=80, accuracy=80, rewards__right=50),
    }
    assert "length_drift" in names(watch(history(LONGER, fooled), ALL, rounds=12, validations=1))


def tossed(chance: np.random.Generator, *metrics: str) -> EvaluationReport:
    """A validation in which nothing was learnt or lost: each task is paid, and right, by the toss of a coin."""
    scores = {
        name: {f"t{task:03d}": float(solved) for task, solved in enumerate(chance.integers(0, 2, 100))}
        for name in metrics
    }
    means = {name: mean_interval(each) for name, each in scores.items()}
    return EvaluationReport("validation", "p", 1, means, scores, ranges=dict.fromkeys(scores, (0.0, 1.0)))


@pytest.mark.slow
def test_noise_alone_raises_no_monitor_more_often_than_its_level():
    chance, runs, raised = np.random.default_rng(0), 40, dict.fromkeys(MONITORS, 0)
    for _ in range(runs):
        curves = {
            "reward": chance.normal(0.5, 0.05, 20),
            "rewards/right/mean": chance.normal(0.5, 0.05, 20),
            "rewards/long/mean": chance.normal(0.5, 0.05, 20),
            "completions/mean_length": chance.normal(50, 20, 20),
            "completions/repetition_ratio": chance.uniform(0, 1, 20),
            "tools/call_frequency": chance.exponential(2, 20),
            "entropy": chance.exponential(0.03, 20),
        }
        validations = {number: tossed(chance, "reward", "rewards/right") for number in range(0, 21, 5)}
        whole, seen = rounds(**curves), set()
        for done in range(5, 21):
            known = {number: each for number, each in validations.items() if number <= done}
            seen |= set(names(watch(history(whole[:done], known), ALL, rounds=20, validations=4)))
        for name in seen:
            raised[name] += 1
    # Of 40 runs, each with a chance of 1 %, more than three come about in less than 1 of 1000 tests.
    assert binom.sf(3, runs, LEVEL) < 1 / 1000
    assert max(raised.values()) <= 3, raised

"""benchmarks.audit: broken rewards are found, and honest ones are not accused, whoever wrote them."""

from dataclasses import replace

import pytest

from benchmarks.audit import honest, planted, unseen
from benchmarks.audit.cases import Case
from benchmarks.audit.families import attacked
from benchmarks.audit.measure import audited, counted, found_by, interval
from rlft.rewards.audit.report import AttackScores


def _ready(case: Case, request: pytest.FixtureRequest) -> Case:
    if case.family == "code":
        request.getfixturevalue("bubblewrap")
    return case


@pytest.mark.slow
@pytest.mark.parametrize("case", [*planted.BROKEN, *unseen.BROKEN], ids=lambda case: case.name)
def test_a_broken_reward_is_refused_for_an_attack_and_not_for_its_gold(case, request):
    report = audited(_ready(case, request))
    assert not report.passed
    assert found_by(report) == report.exploits != (), report.text()
    assert not any("gold is not full" in finding for finding in report.findings)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*honest.HONEST, *unseen.HONEST], ids=lambda case: case.name)
def test_an_honest_reward_is_not_accused(case):
    report = audited(case)
    assert report.passed, report.text()


@pytest.mark.parametrize("case", attacked.BROKEN, ids=lambda case: case.name)
def test_a_reward_by_an_attacker_is_refused(case):
    report = audited(case)
    assert not report.passed, report.text()
    assert found_by(report) == report.exploits != ()


@pytest.mark.parametrize("case", attacked.HONEST, ids=lambda case: case.name)
def test_an_honest_reward_that_was_accused_once_is_not_accused(case):
    report = audited(case)
    assert report.passed, report.text()


def test_there_are_two_broken_rewards_in_each_of_six_families():
    families = [case.family for case in planted.BROKEN]
    assert {name: families.count(name) for name in families} == dict.fromkeys(
        ("matching", "form", "parsing", "tools", "judging", "code"), 2
    )
    assert len({case.name for case in (*planted.BROKEN, *honest.HONEST)}) == 22


def test_the_interval_is_that_of_clopper_and_pearson():
    # 12 of 12: the lower end solves p^12 = 0.025, p = 0.7354; 0 of 10: the upper end solves (1 - p)^10 = 0.025
    assert interval(12, 12) == (pytest.approx(0.025 ** (1 / 12)), 1.0)
    assert interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert interval(0, 0) == (0.0, 1.0)


def test_refusals_of_broken_rewards_are_found_and_those_of_honest_ones_false():
    rows = [{"broken": True, "refused": True}, {"broken": True, "refused": False}, {"broken": False, "refused": True}]
    found = counted(rows)
    assert (found["found"], found["planted"], found["false"], found["honest"]) == (1, 2, 1, 1)


def test_a_reward_that_is_refused_for_its_gold_is_not_found():
    report = audited(planted.BROKEN[0])
    assert found_by(report) == report.exploits
    low = AttackScores(mean=0.5, minimum=0.0, maximum=1.0, count=2, gold_mean=0.5)
    assert found_by(replace(report, attacks={**report.attacks, "gold": low})) == ()

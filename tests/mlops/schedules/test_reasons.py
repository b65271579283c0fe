"""Whether there is a reason to run."""

from dataclasses import replace

import numpy as np
import pytest

from mlops.schedules.reasons import Facts, Looks, Score, score_reason, should_run
from mlops.schedules.settings import WhenConfig

LAST = Facts(frozenset("abc"), {"file rows.jsonl": "1", "alias models:/base@production": "4"})
NEW = WhenConfig.model_validate({"new_tasks": {"at_least": 2}})
CHANGED = WhenConfig.model_validate({"changed": {"files": ["rows.jsonl"]}})
SCORE = Score("models:/demo@champion", 0.5, 0.42, 0.58, 100)


def test_always_is_a_reason():
    assert should_run(WhenConfig(), LAST, LAST).found


def test_the_first_look_finds_one():
    assert should_run(NEW, Facts(), None).sentence == "this schedule has not run before"


@pytest.mark.parametrize(
    ("tasks", "found", "said"),
    [
        ("abc", False, "no new train tasks since the last run"),
        ("ab", False, "no new train tasks since the last run"),  # one that is gone is none
        ("abcd", False, "1 new train task since the last run, and at_least is 2"),
        ("abde", True, "2 new train tasks since the last run"),
    ],
)
def test_new_tasks_are_those_that_the_last_run_did_not_have(tasks, found, said):
    reason = should_run(NEW, Facts(frozenset(tasks)), LAST)
    assert (reason.found, reason.sentence) == (found, said)


def test_what_changed_is_named():
    now = Facts(values={"file rows.jsonl": "2", "alias models:/base@production": "4"})
    assert should_run(CHANGED, now, LAST).sentence == "file rows.jsonl changed since the last run"
    assert not should_run(CHANGED, Facts(values=LAST.values), LAST).found


def test_what_is_looked_at_for_the_first_time_has_not_changed():
    assert not should_run(CHANGED, Facts(values={"file other.jsonl": "9"}), LAST).found


def test_of_several_reasons_one_is_enough_and_none_is_told_of_all():
    both = WhenConfig.model_validate({"new_tasks": {}, "changed": {"files": ["rows.jsonl"]}})
    assert should_run(both, Facts(LAST.tasks, {"file rows.jsonl": "2"}), LAST).found
    told = should_run(both, Facts(LAST.tasks, {"file rows.jsonl": "1"}), LAST).sentence
    assert told == "no new train tasks since the last run; file rows.jsonl is as at the last run"


FIRST = Looks().with_another("m", "k")


@pytest.mark.parametrize(("bound", "found"), [(0.59, True), (0.58, False), (0.55, False)])
def test_a_score_is_below_its_bound_if_its_whole_interval_is(bound, found):
    assert score_reason(SCORE, bound, FIRST).found is found


def test_a_later_look_has_to_be_surer():
    looks = FIRST
    for number in range(3):
        looks = looks.with_another("m", f"k{number}")
    assert looks == Looks("m", "k2", 4)
    assert FIRST.level == pytest.approx(0.025)
    assert looks.level == pytest.approx(0.05 / 20)
    # Student's t with 99 degrees of freedom: 2.871 at 0.0025, 1.984 at 0.025; 0.5 + 0.08 * 2.871 / 1.984 = 0.6158
    assert SCORE.at_most(looks.level) == pytest.approx(0.6158, abs=1e-4)
    assert not score_reason(SCORE, 0.61, looks).found
    assert "not shown to be below 0.61: at most 0.616 at look 4" in score_reason(SCORE, 0.61, looks).sentence
    assert score_reason(SCORE, 0.62, looks).found


def test_looks_at_another_model_begin_anew():
    assert FIRST.with_another("m", "l").with_another("n", "k") == Looks("n", "k", 1)


def test_a_year_of_looks_at_a_score_on_its_bound_seldom_makes_a_run():
    # 200 years of 52 looks at 200 fresh tasks, of which 80 % are solved, the bound. At 2.5 % each half of
    # the years would have a run, or more: 1 - 0.975^52 = 0.73.
    random, found, before = np.random.default_rng(0), 0, 0
    for _ in range(200):
        looks, first, plain = Looks(), False, False
        for week, solved in enumerate(random.binomial(200, 0.8, size=52)):
            mean = solved / 200
            half = 1.972 * (mean * (1 - mean) / 199) ** 0.5  # t with 199 degrees of freedom
            score = Score("m", mean, mean - half, mean + half, 200)
            looks = looks.with_another("m", str(week))
            first = first or score_reason(score, 0.8, looks).found
            plain = plain or score.high < 0.8
        found, before = found + first, before + plain
    assert before / 200 > 0.45
    assert found / 200 <= 0.05 + 0.046  # 3 * sqrt(0.05 * 0.95 / 200)


def test_too_many_attempts_without_a_score_are_no_reason():
    assert score_reason(replace(SCORE, errors=0.05), 0.59, FIRST).found
    assert not score_reason(replace(SCORE, errors=0.06), 0.59, FIRST).found

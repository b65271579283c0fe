"""Whether there is a reason to run."""

import pytest

from rlft.schedule.reasons import Facts, Score, find_reason, remembered, score_reason
from rlft.schedule.settings import ScheduleConfig, WhenConfig

LAST = Facts(frozenset("abc"), {"file rows.jsonl": "1", "alias models:/base@production": "4"})
NEW = WhenConfig.model_validate({"new_tasks": {"at_least": 2}})
CHANGED = WhenConfig.model_validate({"changed": {"files": ["rows.jsonl"]}})
SCORE = Score("k", "models:/demo@champion", 0.5, 0.42, 0.58, 100)


def test_always_is_a_reason():
    assert find_reason(WhenConfig(), LAST, LAST).found


def test_the_first_look_finds_one():
    assert find_reason(NEW, Facts(), None).sentence == "this schedule has not run before"


@pytest.mark.parametrize(
    ("tasks", "found", "said"),
    [
        ("abc", False, "no new train tasks since the last run"),
        ("ab", False, "no new train tasks since the last run"),  # one that is gone is none
        ("abcd", False, "1 new train task since the last run, and at_least is 2"),
        ("abde", True, "there are 2 new train tasks since the last run"),
    ],
)
def test_new_tasks_are_those_that_the_last_run_did_not_have(tasks, found, said):
    reason = find_reason(NEW, Facts(frozenset(tasks)), LAST)
    assert (reason.found, reason.sentence) == (found, said)


def test_what_changed_is_named():
    now = Facts(values={"file rows.jsonl": "2", "alias models:/base@production": "4"})
    assert find_reason(CHANGED, now, LAST).sentence == "file rows.jsonl changed since the last run"
    assert not find_reason(CHANGED, Facts(values=LAST.values), LAST).found


def test_what_is_looked_at_for_the_first_time_has_not_changed():
    assert not find_reason(CHANGED, Facts(values={"file other.jsonl": "9"}), LAST).found


def test_of_several_reasons_one_is_enough_and_none_is_told_of_all():
    both = WhenConfig.model_validate({"new_tasks": {}, "changed": {"files": ["rows.jsonl"]}})
    assert find_reason(both, Facts(LAST.tasks, {"file rows.jsonl": "2"}), LAST).found
    told = find_reason(both, Facts(LAST.tasks, {"file rows.jsonl": "1"}), LAST).sentence
    assert told == "no new train tasks since the last run; file rows.jsonl is as at the last run"


@pytest.mark.parametrize(("bound", "found"), [(0.59, True), (0.58, False), (0.55, False)])
def test_a_score_is_below_its_bound_if_its_whole_interval_is(bound, found):
    assert score_reason(SCORE, bound, None).found is found


def test_the_same_score_is_the_reason_of_one_run():
    schedule = ScheduleConfig(
        name="a", config="a.yaml", cron="@daily", when={"score_below": {"suite": "s.yaml", "bound": 0.9}}
    )
    last = remembered(schedule, Facts(), None, SCORE)
    assert not score_reason(SCORE, 0.9, last).found
    # A run for another reason meanwhile does not make it one again.
    assert not score_reason(SCORE, 0.9, remembered(schedule, Facts(frozenset("a")), last, None)).found
    assert score_reason(Score("other", "m", 0.5, 0.4, 0.6, 10), 0.9, last).found

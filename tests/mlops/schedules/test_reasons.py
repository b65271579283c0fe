"""Whether there is a reason to run."""

import pytest

from mlops.schedules.reasons import should_run
from mlops.schedules.settings import WhenConfig
from mlops.schedules.store import Facts

LAST = Facts(frozenset("abc"), {"file rows.jsonl": "1", "alias models:/base@production": "4"})
NEW = WhenConfig.model_validate({"new_tasks": {"at_least": 2}})
CHANGED = WhenConfig.model_validate({"changed": {"files": ["rows.jsonl"]}})


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

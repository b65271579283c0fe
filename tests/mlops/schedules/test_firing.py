"""What becomes of due times, with a clock of the test's own and runs that are written down."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mlops.schedules import facts, firing
from mlops.schedules.facts import Asked
from mlops.schedules.reasons import Facts, Looks
from mlops.schedules.store import Firing, is_running, keep, keep_state, locked
from mlops.summary.summary import Summary
from rlft.errors import ConfigError, RlftError
from tests.mlops.schedules.conftest import IMPROVED, MONDAY

WEEK, MINUTE = timedelta(days=7), timedelta(minutes=1)


class AwayError(RlftError):
    """Something does not answer now, and may later."""

    exit_code = 1


def test_a_due_time_is_one_run(bench):
    bench.apply(budget={"minutes": 30})
    assert bench.at(MONDAY - MINUTE).commands == []
    [command] = bench.at(MONDAY).commands
    run = "weekly-2026-11-23-040000Z"
    summary = str(bench.home.root / "schedules/results/weekly.json")
    said = "due 2026-11-23 04:00 UTC: it runs at every due time"
    assert command == [
        *("run", "--name", run, "--tag", "schedule=weekly", "--tag", f"reason={said}", "--set", "budget.minutes=30.0"),
        *("--summary", summary, "--", "demo.yaml"),
    ]
    [firing] = bench.firings()
    assert (firing.state, firing.run, firing.codes, firing.status) == ("finished", run, [0], "improved")
    assert firing.said == "it finished, improved, version 3 of demo became champion"
    assert bench.at(MONDAY + MINUTE).commands == []  # once
    assert len(bench.at(MONDAY + WEEK).commands) == 1


def test_a_schedule_of_a_cluster_is_not_due(bench):
    keep(bench.home, bench.apply().model_copy(update={"cluster": "rlft-weekly"}))
    assert bench.at(MONDAY).commands == []


def test_what_was_missed_is_one_run(bench):
    bench.apply()
    bench.at(MONDAY + 2 * WEEK + 60 * MINUTE)  # three due times, at which nothing looked
    assert [(each.state, each.due) for each in bench.firings()] == [("finished", MONDAY + 2 * WEEK)]


def test_what_comes_due_while_a_run_goes_on_is_left_out(bench):
    bench.apply(cron="0 * * * *")
    watch = bench.at(MONDAY, minutes=[150])  # from 4:00 to 6:30
    assert bench.at(watch.now).commands == []
    assert len(bench.at(watch.now + 30 * MINUTE).commands) == 1
    assert [each.due - MONDAY for each in bench.firings()] == [0 * MINUTE, 180 * MINUTE]


def test_only_one_looks_after_a_schedule(bench):
    bench.apply()
    with locked(bench.home, "weekly"):
        assert is_running(bench.home, "weekly")
        assert bench.at(MONDAY).commands == []
    assert not is_running(bench.home, "weekly")
    assert len(bench.at(MONDAY).commands) == 1  # it is due still


# Waits of 60, 120, 240 and 240 minutes: 60 * 2^n, at most four hours.
def test_a_run_that_fails_is_resumed_after_longer_and_longer_waits(bench):
    bench.apply(retries={"count": 4, "wait_minutes": 60})
    watch = bench.at(MONDAY, codes=[1, 5, 137, 143, 1])
    assert [words[0] for words in watch.commands] == ["run"] + ["resume"] * 4
    assert watch.now - MONDAY == 660 * MINUTE
    [firing] = bench.firings()
    assert (firing.state, firing.codes) == ("failed", [1, 5, 137, 143, 1])
    assert firing.said == "it failed with exit code 1, the last of 5 tries: it broke"


@pytest.mark.parametrize("code", [2, 3, 4, 130])
def test_what_no_other_try_would_change_is_not_tried_again(bench, code):
    bench.apply()
    assert len(bench.at(MONDAY, codes=[code]).commands) == 1
    assert bench.states() == ["finished" if code in (3, 4) else "failed"]


def test_a_run_whose_settings_cannot_work_is_not_tried_again(bench):
    bench.apply()
    hopeless = Summary(status="failed", needs_new_settings=True, pipeline_run_id="p", error="no group varies")
    assert len(bench.at(MONDAY, codes=[1], summaries=[hopeless]).commands) == 1


def test_a_run_that_was_left_is_resumed(bench):
    bench.apply()
    with pytest.raises(KeyboardInterrupt):  # in the place of a kill
        bench.at(MONDAY, codes=[None])
    assert bench.state.running is not None
    assert bench.states() == []
    watch = bench.at(MONDAY + MINUTE)
    assert [words[:2] for words in watch.commands] == [["resume", "weekly-2026-11-23-040000Z"]]
    assert (bench.states(), bench.state.running) == (["finished"], None)


def test_what_another_run_came_to_is_not_taken_for_that_of_one_that_was_left(bench):
    bench.apply()
    bench.at(MONDAY)
    with pytest.raises(KeyboardInterrupt):
        bench.at(MONDAY + WEEK, codes=[None])
    watch = bench.at(MONDAY + WEEK + MINUTE)
    assert [words[:2] for words in watch.commands] == [["resume", "weekly-2026-11-30-040000Z"]]


def test_a_run_that_was_noted_and_had_not_begun_is_begun(bench):
    bench.apply()
    with pytest.raises(KeyboardInterrupt):
        bench.at(MONDAY, codes=[None])
    unknown = Summary(status="failed", error="there is no run of this name")  # what `rlft resume` leaves then
    watch = bench.at(MONDAY + MINUTE, codes=[2, 0], summaries=[unknown])
    assert [words[0] for words in watch.commands] == ["resume", "run"]
    assert bench.states() == ["finished"]


def test_a_run_that_ended_while_nothing_looked_is_not_made_again(bench):
    bench.apply()
    with pytest.raises(KeyboardInterrupt):
        bench.at(MONDAY, codes=[None])
    bench.watch().call("run", "--summary", str(bench.home.root / "schedules/results/weekly.json"))
    watch = bench.at(MONDAY + MINUTE)
    assert (watch.commands, bench.states()) == ([], ["finished"])


def test_a_schedule_that_is_deleted_while_its_run_goes_on_leaves_nothing(bench, monkeypatch):
    from mlops.schedules.store import names_of, remove

    bench.apply()
    watch = bench.watch(MONDAY)
    monkeypatch.setattr(watch, "call", lambda *words: remove(bench.home, "weekly") or 0)
    watch.look()
    assert (names_of(bench.home), bench.firings(), bench.state.running) == ([], [], None)


@pytest.fixture
def looks(bench, monkeypatch):
    """What looks find, one after the other, or raise; the last again and again."""
    script = []

    def look(home, stored):
        found = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(facts, "look", look)
    return script


def test_without_a_reason_nothing_runs_and_with_one_it_is_that_of_one_run(bench, looks):
    bench.apply(when={"new_tasks": {"at_least": 2}}, cron="0 4 * * *")
    looks[:] = [Facts(frozenset(tasks)) for tasks in ("a", "ab", "abc", "abc")]
    for day in range(4):
        bench.at(MONDAY + timedelta(days=day))
    assert bench.states() == ["finished", "no_reason", "finished", "no_reason"]
    assert [firing.reason for firing in bench.firings()][::2] == [
        "this schedule has not run before",
        "2 new train tasks since the last run",
    ]
    assert bench.state.facts == Facts(frozenset("abc"))


def test_an_interrupt_of_a_look_is_not_tried_again(bench, looks):
    bench.apply(when="new_tasks")
    looks[:] = [KeyboardInterrupt()]
    watch = bench.watch(MONDAY)
    with pytest.raises(KeyboardInterrupt):
        watch.look()
    assert (watch.now, bench.states()) == (MONDAY, [])  # it is due still


def test_a_look_that_finds_nothing_out_is_tried_again_unless_a_setting_is_wrong(bench, looks):
    bench.apply(when="new_tasks")
    looks[:] = [AwayError("away"), OSError("away"), Facts()]
    assert bench.at(MONDAY).now == MONDAY + 30 * MINUTE  # 10 and 20
    looks[:] = [ConfigError("no such file")]
    assert bench.at(MONDAY + WEEK).now == MONDAY + WEEK
    assert bench.states() == ["finished", "failed"]


def test_a_champion_below_its_bound_is_the_reason_of_one_run(bench, monkeypatch):
    bench.apply(when={"score_below": {"suite": "s.yaml", "bound": 0.8}}, cron="0 4 * * *")
    keep_state(bench.home, "weekly", bench.state.model_copy(update={"facts": Facts()}))
    asked = [Asked("models:/demo/3", "use", "accuracy", "key")]
    monkeypatch.setattr(facts, "asked_score", lambda home, stored, below: asked[0])

    def measured(low, high):
        metric = {"mean": (low + high) / 2, "low": low, "high": high}
        return {"scenarios": {"use": {"demo-3": {"splits": {"test": {"tasks": 100, "metrics": {"accuracy": metric}}}}}}}

    first = bench.at(MONDAY, summaries=[measured(0.7, 0.9)])
    assert [words[:2] for words in first.commands] == [["evaluate", "models:/demo/3"]]
    assert bench.state.facts.looks == Looks("models:/demo/3", "key", 1)  # a look without a reason counts
    assert bench.at(MONDAY + timedelta(days=1)).commands == []  # the same model on the same tasks
    asked[:] = [asked[0]._replace(key="key2")]
    second = bench.at(MONDAY + timedelta(days=2), summaries=[measured(0.5, 0.6)])
    assert [words[0] for words in second.commands] == ["evaluate", "run"]
    assert bench.state.facts.looks == Looks("models:/demo/3", "key2")  # counted anew
    assert bench.at(MONDAY + timedelta(days=3)).commands == []
    assert bench.states() == ["no_reason", "no_reason", "finished", "no_reason"]


def test_a_signal_that_ends_it_leaves_the_run_to_the_next_look(bench, monkeypatch):
    bench.apply()
    watch = bench.watch(MONDAY)

    def ended(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "call", ended)
    with pytest.raises(KeyboardInterrupt):
        watch.look()
    assert (bench.state.running is not None, bench.states()) == (True, [])


def test_who_is_to_be_told_is_told(bench, monkeypatch):
    told = []
    monkeypatch.setattr(firing, "tell", lambda settings, what: told.append(what) or "nobody answers")
    bench.apply(notify={"events": ["promoted", "failed"], "webhook": "env:HOOK"}, retries={"count": 0})
    bench.at(MONDAY)
    bench.at(MONDAY + WEEK, codes=[1])
    assert [(each["event"], each["version"], each["status"], each["error"]) for each in told] == [
        ("promoted", "3", "improved", None),
        ("failed", "3", "failed", "it broke"),
    ]
    assert all(each.said.endswith("; nobody answers") for each in bench.firings())


def test_the_newest_of_the_history_are_kept(bench, monkeypatch):
    monkeypatch.setattr(firing, "KEPT", 3)
    bench.apply()
    for number in range(5):
        bench.at(MONDAY + number * WEEK)
    assert [(each.due - MONDAY) // WEEK for each in bench.firings()] == [2, 3, 4]


def test_what_was_stored_comes_back(bench):
    seen = bench.state.model_copy(update={
        "looked": MONDAY,
        "facts": Facts(frozenset("ab"), {"file a": "1"}, Looks("m", "k", 3)),
        "running": Firing(schedule="weekly", due=MONDAY, codes=[1]),
    })  # fmt: skip
    bench.apply()
    keep_state(bench.home, "weekly", seen)
    assert bench.state == seen
    assert IMPROVED.promotion.promoted

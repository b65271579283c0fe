"""What becomes of a firing, by a clock of the test's own and with runs that are written down."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from typer.main import get_command

from cli.app import app
from mlops.schedules import store
from mlops.schedules.facts import Look
from mlops.schedules.firings import Try, change, fire_now, read_firing, unfinished
from mlops.schedules.lock import schedule_lock
from mlops.schedules.starting import log_file, summary_file
from mlops.schedules.watch import carry_out
from mlops.summary.file import summary_text
from mlops.summary.sections import Promotion
from mlops.summary.summary import Summary
from rlft.schedule.reasons import Facts
from tests.mlops.schedules.conftest import IMPROVED, MONDAY, Scripted

HOUR, WEEK = timedelta(hours=1), timedelta(days=7)


def looks(tasks: str, **values: str) -> dict:
    return Look(Facts(frozenset(tasks), values)).to_json()


def option(command: list[str], name: str) -> list[str]:
    return [command[place + 1] for place, word in enumerate(command) if word == name]


def test_a_run_is_rlft_run_with_the_schedules_budget_and_promotion(bench):
    bench.apply(
        budget={"minutes": 30}, promotion={"approval": "required"}, timezone="Europe/Berlin", cron="0 5 * * mon"
    )
    [command] = bench.at(MONDAY).commands
    assert (command[0], command[-2:]) == ("run", ["--", "demo.yaml"])
    assert option(command, "--set") == ["budget.minutes=30.0", 'promotion.approval="required"']
    assert option(command, "--name") == ["weekly-1-2026-11-23-0400Z"]
    assert option(command, "--tag") == ["schedule=weekly"]
    assert option(command, "--note") == ["Schedule weekly, due 2026-11-23 05:00 CET: it runs at every due time."]
    assert option(command, "--stack") == []
    [firing] = bench.firings()
    assert (firing.state, firing.status, firing.run) == ("finished", "improved", "weekly-1-2026-11-23-0400Z")
    assert firing.said == "it finished, improved, version 3 of demo became champion"


def test_a_config_whose_name_begins_with_a_dash_is_no_option(bench):
    bench.apply(config="-x.yaml", promotion={"approval": "required"})
    [command] = bench.at(MONDAY).commands
    given = get_command(app).commands["run"].make_context("run", command[1:]).params
    assert (given["config"], given["name"]) == (Path("-x.yaml"), "weekly-1-2026-11-23-0400Z")


def test_on_a_stack_it_is_run_and_resumed_there(bench):
    bench.apply(stack="gpu")
    watch = bench.at(MONDAY, codes=[1, 0])
    assert [option(command, "--stack") for command in watch.commands] == [["gpu"], ["gpu"]]


def test_without_a_reason_nothing_runs_and_it_is_listed(bench):
    bench.apply(when="new_tasks")
    assert len(bench.at(MONDAY, looks=looks("ab")).commands) == 1
    watch = bench.at(MONDAY + WEEK, looks=looks("ab"))
    assert watch.commands == []
    assert watch.said == ["no reason to run: no new train tasks since the last run"]
    assert bench.states() == ["finished", "no_reason"]
    assert len(bench.at(MONDAY + 2 * WEEK, looks=looks("abc")).commands) == 1
    assert bench.firings()[-1].reason == "there is 1 new train task since the last run"


def test_a_reason_is_that_of_one_run_also_if_the_run_fails(bench):
    bench.apply(when="new_tasks", retries={"count": 0})
    bench.at(MONDAY, looks=looks("ab"), codes=[1])
    assert bench.at(MONDAY + WEEK, looks=looks("ab")).commands == []
    assert bench.states() == ["failed", "no_reason"]


def test_what_was_seen_when_there_was_no_reason_is_not_used_up(bench):
    bench.apply(when={"new_tasks": {"at_least": 2}})
    bench.at(MONDAY, looks=looks("a"))
    bench.at(MONDAY + WEEK, looks=looks("ab"))
    bench.at(MONDAY + 2 * WEEK, looks=looks("abc"))  # two more than at the last run
    assert bench.states() == ["finished", "no_reason", "finished"]


def test_a_run_that_fails_goes_on_after_longer_and_longer_waits(bench):
    bench.apply(retries={"count": 2, "wait_minutes": 10, "factor": 3})
    watch = bench.at(MONDAY, codes=[1, 137, 0])
    assert [command[0] for command in watch.commands] == ["run", "resume", "resume"]
    assert watch.commands[1][1] == "weekly-1-2026-11-23-0400Z"
    # 10 minutes, then 30
    assert watch.now == MONDAY + timedelta(minutes=40)
    [firing] = bench.firings()
    assert (firing.state, [each.code for each in firing.tries]) == ("finished", [1, 137, 0])


def test_the_last_try_is_the_end(bench):
    bench.apply(retries={"count": 1})
    watch = bench.at(MONDAY, codes=[1, 1, 0])
    assert len(watch.commands) == 2
    assert bench.firings()[0].said == "it failed, the last of 2 tries: it broke"


def test_a_run_that_had_not_begun_is_begun_again_under_its_name(bench):
    bench.apply()
    watch = bench.at(MONDAY, codes=[1, 0], summaries=[Summary(status="failed", error="no room")])
    assert [command[0] for command in watch.commands] == ["run", "run"]
    assert option(watch.commands[0], "--name") == option(watch.commands[1], "--name")


def test_a_set_up_that_cannot_work_is_not_tried_again(bench):
    bench.apply()
    watch = bench.at(MONDAY, codes=[2], summaries=[Summary(status="failed", error="no such file")])
    assert len(watch.commands) == 1
    assert bench.firings()[0].said == "its set-up cannot work, and would not the next time: no such file"


def test_settings_that_cannot_work_with_the_tasks_are_not_tried_again(bench):
    bench.apply()
    left = Summary(status="failed", error="too few", pipeline_run_id="p", needs_new_settings=True)
    assert len(bench.at(MONDAY, codes=[1], summaries=[left]).commands) == 1
    assert bench.states() == ["failed"]


@pytest.mark.parametrize(("code", "status"), [(3, "too_hard"), (4, "already_solved")])
def test_tasks_that_need_no_training_are_no_failure(bench, code, status):
    bench.apply()
    assert len(bench.at(MONDAY, codes=[code], summaries=[Summary(status=status)]).commands) == 1
    assert [(firing.state, firing.status) for firing in bench.firings()] == [("finished", status)]


def test_a_pause_ends_the_tries(bench):
    bench.apply()

    class Paused(Scripted):
        def call(self, command, folder, lock):
            with store.opened(self.home) as opened:
                store.set_paused(opened, "weekly", True, MONDAY)
            return super().call(command, folder, lock)

    [firing] = bench.look(MONDAY)
    watch = Paused(bench.home, codes=[1, 0])
    carry_out(watch, firing.id)
    assert len(watch.commands) == 1
    assert bench.firings()[0].said.startswith("it failed, and is not tried again, since the schedule is paused")


def test_a_schedule_that_is_deleted_meanwhile_leaves_nothing(bench):
    bench.apply()

    class Deleted(Scripted):
        def call(self, command, folder, lock):
            with store.opened(self.home) as opened:
                store.remove(opened, "weekly")
            return super().call(command, folder, lock)

    [firing] = bench.look(MONDAY)
    assert carry_out(Deleted(bench.home, codes=[1, 0]), firing.id) is None
    assert bench.firings() == []


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_while_a_run_goes_on_a_due_time_is_left_out_or_waits(bench, overlap):
    bench.apply(overlap=overlap, cron="0 * * * *")
    [firing] = bench.look(MONDAY)
    watch = Scripted(bench.home, now=MONDAY)
    ends: list[int] = []
    with schedule_lock(bench.home, "weekly", lambda: False) as held:
        assert held is not None

        def pause(seconds: float) -> None:
            ends.append(1)
            watch.signals.caught = (
                signal.SIGTERM if len(ends) > 2 else 0
            )  # else it would wait as long as the lock is held

        watch.pause = pause
        carry_out(watch, firing.id)
    assert watch.commands == []
    assert bench.states() == [{"skip": "skipped", "queue": "queued"}[overlap]]
    if overlap == "queue":  # and then the run is made
        assert len(bench.at(MONDAY + timedelta(minutes=1)).commands) == 1
        assert bench.states() == ["finished"]


def test_at_most_one_waits(bench):
    bench.apply(overlap="queue", cron="0 * * * *")
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", False, MONDAY - HOUR)
    [first] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        change(opened, first.id, state="queued")
    second = bench.look(MONDAY + HOUR)[-1]
    with schedule_lock(bench.home, "weekly", lambda: False):
        carry_out(Scripted(bench.home), second.id)
    assert bench.states() == ["queued", "skipped"]
    assert bench.firings()[1].said == "another run of this schedule went on, and one waited for it"


def test_a_person_who_does_not_wait_needs_no_reason_and_is_told_from(bench):
    bench.apply(when="new_tasks")
    with store.opened(bench.home) as opened:
        firing = fire_now(opened, "weekly", MONDAY)
    watch = Scripted(bench.home, looks=looks("ab"))
    assert carry_out(watch, firing.id).reason == "a person asked for it"
    assert bench.at(MONDAY + WEEK, looks=looks("ab")).commands == []


def test_a_person_gets_a_run_also_if_the_reasons_cannot_be_found_out(bench):
    bench.apply(when="new_tasks")
    with store.opened(bench.home) as opened:
        firing = fire_now(opened, "weekly", MONDAY)
    assert carry_out(Scripted(bench.home, looks=None), firing.id).state == "finished"


def given_up(bench, **values):
    """What the process of a `run-now` leaves that was killed."""
    with store.opened(bench.home) as opened:
        firing = fire_now(opened, "weekly", MONDAY - HOUR)
        return change(opened, firing.id, **({"watcher": ""} | values))


@pytest.mark.parametrize("watcher", ["", "1 0.0"])
@pytest.mark.parametrize("state", ["due", "queued", "looking"])
def test_what_a_person_asked_for_is_not_run_when_the_command_is_gone(bench, state, watcher):
    bench.apply()
    given_up(bench, state=state, watcher=watcher)
    assert bench.look(MONDAY - HOUR) == []  # so that no process is begun for it
    watch = bench.at(MONDAY - HOUR)
    assert (watch.commands, bench.states()) == ([], ["cut_short"])
    assert bench.firings()[0].said.startswith("the command that asked for it ended before a run began")
    assert len(bench.at(MONDAY).commands) == 1  # what is due by the clock is


def test_a_later_firing_does_not_begin_what_a_person_gave_up(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        left = fire_now(opened, "weekly", MONDAY)
        change(opened, left.id, watcher="")
        opened.execute("UPDATE firings SET id = 99 WHERE id = ?", (firing.id,))
    watch = Scripted(bench.home)
    carry_out(watch, 99)
    assert (len(watch.commands), sorted(bench.states())) == (1, ["cut_short", "finished"])


def test_a_run_that_a_person_asked_for_and_that_was_killed_before_it_began_is_not_begun(bench):
    bench.apply()
    given_up(bench, state="running", tries=[Try("weekly-1", "then")])
    assert (bench.at(MONDAY - HOUR).commands, bench.states()) == ([], ["cut_short"])


def test_a_run_that_a_person_asked_for_and_that_had_begun_goes_on(bench):
    bench.apply()
    given_up(bench, state="running", tries=[Try("weekly-1", "then", 137)])
    file = summary_file(bench.home, bench.firings()[0], 1)
    file.parent.mkdir(parents=True)
    file.write_text(summary_text(Summary(status="failed", pipeline_run_id="p")))
    assert [command[0] for command in bench.at(MONDAY - HOUR).commands] == ["resume"]


def test_a_wish_of_a_process_that_is_there_is_left_to_it(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        firing = fire_now(opened, "weekly", MONDAY - HOUR)
    assert bench.look(MONDAY - HOUR) == []
    assert not firing.is_given_up
    assert bench.states() == ["due"]


@pytest.mark.parametrize("tries", [[], [Try("weekly-1", "then")]])
def test_a_pause_holds_what_had_not_begun(bench, tries):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        change(opened, firing.id, tries=tries)
        store.set_paused(opened, "weekly", True, MONDAY)
    watch = bench.at(MONDAY + HOUR)
    assert (watch.commands, bench.states()) == ([], ["skipped"])
    assert bench.firings()[0].said == "the schedule was paused before a run began"


def test_a_person_may_run_a_schedule_that_is_paused(bench):
    bench.apply()
    with store.opened(bench.home) as opened:
        store.set_paused(opened, "weekly", True, MONDAY)
        firing = fire_now(opened, "weekly", MONDAY)
    assert carry_out(Scripted(bench.home), firing.id).state == "finished"


def test_a_look_that_fails_is_tried_again_and_then_told(bench):
    bench.apply(when="new_tasks", retries={"count": 1, "wait_minutes": 5})
    watch = bench.at(MONDAY, looks=None)
    assert watch.commands == []
    assert watch.now == MONDAY + timedelta(minutes=5)
    [firing] = bench.firings()
    assert (firing.state, firing.told) == ("failed", ("failed",))
    assert firing.said == "whether there is a reason could not be found out (exit code 1): its log says why"


def test_a_look_that_says_why_it_failed_is_told_with_that(bench, tmp_path):
    bench.apply(when="new_tasks", retries={"count": 0}, notify={"command": ["tee", str(tmp_path / "told.json")]})
    log = log_file(bench.home, bench.look(MONDAY)[0])
    log.parent.mkdir(parents=True)
    log.touch()
    bench.at(MONDAY, looks={"error": "data.jsonl: no such file"}, look_code=2)
    [firing] = bench.firings()
    said = "whether there is a reason could not be found out (exit code 2): data.jsonl: no such file"
    assert firing.said == said
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["event"], told["said"], told["log"]) == ("failed", said, str(log))


def test_a_run_that_nobody_looked_after_any_more_is_found_and_not_begun_again(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:  # what a process leaves that was killed while the run went on
        change(opened, firing.id, state="running", reason="r", tries=[Try("weekly-1", "then")])
    file = summary_file(bench.home, firing, 1)
    file.parent.mkdir(parents=True)
    file.write_text(summary_text(IMPROVED))
    watch = bench.at(MONDAY + HOUR)
    assert watch.commands == []
    assert [(each.state, each.status) for each in bench.firings()] == [("finished", "improved")]


class Killed(Scripted):
    """Whose runs are killed before they write anything."""

    def call(self, command, folder, lock):
        self.commands.append(command)
        return 137


@pytest.mark.parametrize("tries", [1, 2])
def test_a_result_that_lies_there_from_before_is_never_that_of_a_run(bench, tries):
    bench.apply(retries={"count": tries - 1})
    [firing] = bench.look(MONDAY)
    old = summary_file(bench.home, firing, tries)
    old.parent.mkdir()
    old.write_text(summary_text(IMPROVED))
    done = carry_out(Killed(bench.home), firing.id)
    assert (done.state, done.status, len(done.tries)) == ("failed", "", tries)
    assert not old.exists()


def test_a_store_that_is_made_again_does_not_take_results_of_the_one_before(bench):
    bench.apply()
    bench.at(MONDAY)
    before = summary_file(bench.home, bench.firings()[0], 1)
    (bench.home.root / "schedules/schedules.db").unlink()
    bench.apply(now=MONDAY)
    [firing] = bench.look(MONDAY + WEEK)
    assert firing.id == 1
    assert before.is_file()
    assert summary_file(bench.home, firing, 1) != before


def test_one_that_was_noted_and_never_began_is_begun(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        change(opened, firing.id, state="running", reason="r", tries=[Try("weekly-1", "then")])
    watch = bench.at(MONDAY + HOUR)
    assert [command[:1] + option(command, "--name") for command in watch.commands] == [["run", "weekly-1"]]
    assert len(bench.firings()[0].tries) == 1


def test_a_wait_that_was_cut_short_is_no_longer_than_it_was_to_be(bench):
    bench.apply(retries={"count": 2, "wait_minutes": 60})
    [firing] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        change(
            opened,
            firing.id,
            state="waiting",
            tries=[Try("weekly-1", "then", 1)],
            not_before=MONDAY + timedelta(minutes=60),
        )
    file = summary_file(bench.home, firing, 1)
    file.parent.mkdir(parents=True)
    file.write_text(summary_text(Summary(status="failed", pipeline_run_id="p")))
    watch = bench.at(MONDAY + timedelta(minutes=50))
    assert [command[0] for command in watch.commands] == ["resume"]
    assert watch.now == MONDAY + timedelta(minutes=60)


def test_what_was_left_before_is_brought_to_its_end_first(bench):
    bench.apply()
    [left] = bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        change(opened, left.id, state="running", tries=[Try("weekly-1", "then")])
    later = bench.look(MONDAY + WEEK)[-1]
    assert later.id != left.id
    watch = Scripted(bench.home, now=MONDAY + WEEK)
    carry_out(watch, later.id)
    assert [option(command, "--name")[0] for command in watch.commands] == ["weekly-1", "weekly-2-2026-11-30-0400Z"]
    assert bench.states() == ["finished", "finished"]


@pytest.mark.parametrize(("number", "state"), [(signal.SIGTERM, "running"), (signal.SIGINT, "failed")])
def test_a_machine_that_goes_down_leaves_a_run_that_goes_on_and_ctrl_c_ends_it(bench, number, state):
    bench.apply()

    class Ended(Scripted):
        def call(self, command, folder, lock):
            self.signals.caught = number
            return super().call(command, folder, lock)

    [firing] = bench.look(MONDAY)
    watch = Ended(bench.home, codes=[128 + number])
    carry_out(watch, firing.id)
    assert (len(watch.commands), bench.states()) == (1, [state])
    if state == "running":
        again = bench.at(MONDAY + HOUR)
        assert [command[0] for command in again.commands] == ["resume"]
        assert bench.states() == ["finished"]


def test_who_is_told_what(bench):
    file = bench.place / "told.jsonl"
    tells = {"command": ["sh", "-c", f"cat >> {file}; echo >> {file}"]}
    bench.apply(notify=tells, retries={"count": 0})
    bench.at(MONDAY)
    waits = Summary(status="not_improved", promotion=Promotion(name="demo", version="4", approval="pending"))
    bench.at(MONDAY + WEEK, summaries=[waits])
    bench.at(MONDAY + 2 * WEEK, codes=[1])
    told = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["event"], each["run"][:8], each["version"]) for each in told] == [
        ("improved", "weekly-1", "3"),
        ("promoted", "weekly-1", "3"),
        ("waiting_for_approval", "weekly-2", "4"),
        ("failed", "weekly-3", "3"),
    ]
    assert told[2]["approve"] == "rlft approve demo 4"
    assert told[3]["error"] == "it broke"
    assert [each.told for each in bench.firings()] == [("improved", "promoted"), ("waiting_for_approval",), ("failed",)]


def test_only_what_is_asked_for_is_told_and_a_problem_is_noted(bench):
    bench.apply(notify={"command": ["./absent"], "events": ["promoted"]})
    bench.at(MONDAY)
    [firing] = bench.firings()
    assert (firing.state, firing.told) == ("finished", ("promoted",))
    assert firing.said.endswith(
        "; the command ./absent of notify cannot be run: [Errno 2] No such file or directory: './absent'"
    )


def test_a_kill_between_the_end_and_the_telling_tells_the_rest(bench):
    file = bench.place / "told"
    bench.apply(notify={"command": ["sh", "-c", f'echo $RLFT_EVENT >> "{file}"']})
    bench.at(MONDAY)
    [firing] = bench.firings()
    with store.opened(bench.home) as opened:
        opened.execute("UPDATE firings SET ended = '', told = '[\"improved\"]', watcher = ''")
        assert [each.id for each in unfinished(opened)] == [firing.id]
    file.unlink()
    watch = bench.at(MONDAY + HOUR)
    assert (watch.commands, file.read_text()) == ([], "promoted\n")
    with store.opened(bench.home) as opened:
        assert read_firing(opened, firing.id).is_over

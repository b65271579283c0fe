"""A schedule for real: due every minute, three runs, and a scheduler that is killed while one of them goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import yaml

from mlops.home import folder
from mlops.schedules import store
from mlops.schedules.firings import Firing, claim_due, firings_of
from mlops.schedules.judging import judge
from mlops.schedules.lock import is_held, schedule_lock
from mlops.schedules.watching import Watch
from tests.e2e.conftest import TINY

SECONDS = 900  # three minutes on a machine of its own; others take several times as long for a run, and skip due times


def small_config() -> str:
    """The tiny config with one round and without what is compared."""
    content = yaml.safe_load(TINY.read_text().replace("3e-3", "3.0e-3").replace("1e-3", "1.0e-3"))
    content["training"] |= {"rounds": 1, "tasks_per_round": 4}
    content["evaluation"] |= {"forgetting": False, "validate_every": 1}
    del content["tasks"]["off_distribution"], content["tasks"]["off_distribution_count"]
    return yaml.safe_dump(content | {"controls": []})


def started(home) -> subprocess.Popen:
    words = [sys.executable, "-m", "cli", "schedule", "run"]
    return subprocess.Popen(words, cwd=home.folder, env=home.environment())


def firings(home) -> list[Firing]:
    with store.opened(folder.Home(home.folder / ".rlft")) as opened:
        return firings_of(opened, "often")[::-1]


def wait_for(fact) -> None:
    until = time.monotonic() + SECONDS
    while not fact():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.5)


def tried(home) -> list[Firing]:
    return [firing for firing in firings(home) if firing.tries]


@pytest.fixture(scope="module")
def scheduled(make_home):
    """A home with a schedule that is due every minute, and the scheduler that looks after it."""
    home = make_home("schedule")
    (home.folder / "small.yaml").write_text(small_config())
    written = {
        "name": "often",
        "config": "small.yaml",
        "cron": "* * * * *",
        "notify": {"command": ["sh", "-c", "cat >> told"]},
    }
    (home.folder / "often.yaml").write_text(yaml.safe_dump(written))
    assert home.rlft("schedule", "apply", "often.yaml").code == 0
    first = started(home)
    yield home, first
    first.kill()


@pytest.mark.slow
@pytest.mark.usefixtures("scheduled")  # which waits for its minutes meanwhile
def test_a_champion_below_its_bound_is_a_reason_once(finished, tmp_path, monkeypatch):
    source, _ = finished
    home = source.copy(tmp_path)
    assert home.query("print(json.dumps(mlflow_client.set_registered_model_alias('tiny', 'champion', '1')))") is None
    (home.folder / "small.yaml").write_text(small_config())
    # Above all that can be reached, so that the champion is below it whatever it has learnt.
    reasons = {"score_below": {"suite": "small.yaml", "bound": 2.0}}
    content = {"name": "often", "config": "small.yaml", "cron": "* * * * *", "when": reasons}
    begin = datetime(2026, 11, 23, 4, tzinfo=UTC)
    watch = Watch(folder.Home(home.folder / ".rlft"), clock=lambda: begin)
    stored = store.apply_schedule(watch.home, content, home.folder, begin)
    for name in ("ZENML_STORE_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RLFT_HOME", str(watch.home.root))
    judged = []
    for minute in (1, 2, 3):
        with store.opened(watch.home) as opened:
            firing = claim_due(opened, stored, begin + timedelta(minutes=minute))
            stored = store.find(opened, "often")
        with schedule_lock(watch.home, "often", lambda: False) as lock:
            judged.append(judge(watch, stored, firing, lock))
        if judged[-1].reason.found:  # a run begins, and with it what it began with is noted
            with store.opened(watch.home) as opened:
                store.keep_facts(opened, "often", judged[-1].facts)
    first, second, third = (each.reason for each in judged)
    assert (first.found, first.sentence) == (True, "this schedule has not run before")
    assert second.found
    assert "models:/tiny" in second.sentence
    assert not third.found  # the same version on the same tasks


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_three_runs_of_a_schedule_that_is_due_every_minute(scheduled):
    home, first = scheduled
    past = len(tried(home))
    wait_for(lambda: len(tried(home)) > past)
    first.send_signal(signal.SIGKILL)  # while that run goes on
    first.wait()
    assert is_held(folder.Home(home.folder / ".rlft"), "often")
    over = sum(firing.state == "finished" for firing in firings(home))
    second = started(home)
    try:
        wait_for(lambda: sum(firing.state == "finished" for firing in firings(home)) >= max(3, over + 2))
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait() == 143
    wait_for(lambda: all(firing.is_over for firing in firings(home)))

    found, ran = firings(home), tried(home)
    assert {firing.state for firing in found} <= {"finished", "skipped"}
    assert {(firing.due.second, firing.due.microsecond) for firing in found} == {(0, 0)}
    assert len({firing.due for firing in found}) == len(found)
    assert [[each.code for each in firing.tries] for firing in ran] == [[0]] * len(ran)
    # One after the other: no run began before the one before it had ended.
    for before, after in pairwise(ran):
        assert before.ended is not None
        assert store.as_text(before.ended) <= after.tries[0].began
    listed = json.loads(home.module("cli", "runs", "--json").stdout)
    assert sorted(run["name"] for run in listed) == sorted(firing.run for firing in ran)
    [schedule] = json.loads(home.module("cli", "schedule", "list", "--json").stdout)
    assert (schedule["name"], schedule["state"], schedule["last"]["id"]) == ("often", "active", found[-1].id)

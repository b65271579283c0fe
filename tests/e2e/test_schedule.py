"""A schedule for real: due twice, and a scheduler that is killed with what looks after its run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
import yaml

from mlops.home.folder import Home
from mlops.schedules.firing import Watch
from mlops.schedules.reasons import Facts
from mlops.schedules.store import (
    State,
    Stored,
    find,
    is_running,
    keep,
    keep_state,
    result_file,
    state_of,
)
from tests.e2e.conftest import TINY

SECONDS = 600  # less than a minute on a machine of its own; others take several times as long for a run


def small_config() -> str:
    """The tiny config, which counts as solved after its baseline."""
    content = yaml.safe_load(TINY.read_text().replace("3e-3", "3.0e-3").replace("1e-3", "1.0e-3"))
    content["baseline"]["already_solved"] = 0.001
    del content["tasks"]["off_distribution"], content["tasks"]["off_distribution_count"]
    return yaml.safe_dump(content | {"controls": []})


def wait_for(fact) -> None:
    until = time.monotonic() + SECONDS
    while not fact():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_schedule_that_is_due_every_minute_has_one_run_for_its_reason(make_home):
    place = make_home("schedule")
    home = Home(place.folder / ".rlft")
    (place.folder / "small.yaml").write_text(small_config())
    reasons = {"changed": {"files": ["small.yaml"]}}  # and the first due time is one by itself
    written = {"name": "often", "config": "small.yaml", "cron": "* * * * *", "when": reasons}
    (place.folder / "often.yaml").write_text(yaml.safe_dump(written))
    assert place.rlft("schedule", "apply", "often.yaml").code == 0
    # Due at once, as if something had looked two minutes ago for the last time.
    keep(home, find(home, "often").model_copy(update={"since": datetime.now(UTC) - timedelta(minutes=2)}))

    def started() -> subprocess.Popen:
        words = [sys.executable, "-m", "cli", "schedule", "run"]
        return subprocess.Popen(words, cwd=place.folder, env=place.environment())

    def watches() -> list[psutil.Process]:
        return [each for each in psutil.Process(first.pid).children() if "--once" in each.cmdline()]

    first = started()
    try:
        wait_for(lambda: state_of(home, "often").running and any(watch.children() for watch in watches()))
    finally:
        [watch] = watches()
        first.kill()
        first.wait()
        watch.kill()
    assert is_running(home, "often")  # the run goes on alone
    assert not state_of(home, "often").past
    second = started()
    try:
        wait_for(lambda: len(state_of(home, "often").past) >= 2)
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait() == 143
    wait_for(lambda: not is_running(home, "often"))
    first_due, second_due = state_of(home, "often").past[:-3:-1]
    # Nothing was there to see the exit code of the run, which its summary has.
    assert (first_due.state, first_due.codes, first_due.status) == ("finished", [], "already_solved")
    assert (second_due.state, second_due.run) == ("no_reason", None)
    assert first_due.due < second_due.due
    [run] = json.loads(place.module("cli", "runs", "--json").stdout)
    assert run["name"] == first_due.run
    [schedule] = json.loads(place.module("cli", "schedule", "list", "--json").stdout)
    assert (schedule["name"], schedule["state"], schedule["last_run"]["run"]) == ("often", "active", run["name"])


class Evaluating(Watch):
    """Evaluates, and makes no runs."""

    def call(self, *words: str) -> int:
        if words[0] == "evaluate":
            return super().call(*words)
        result_file(self.home, "often").write_text(json.dumps({"status": "improved", "pipeline_run_id": "p"}))
        return 0


@pytest.mark.slow
def test_a_champion_below_its_bound_is_a_reason_once(finished, tmp_path, monkeypatch):
    source, _ = finished
    place = source.copy(tmp_path)
    assert place.query("print(json.dumps(mlflow_client.set_registered_model_alias('tiny', 'champion', '1')))") is None
    (place.folder / "small.yaml").write_text(small_config())
    home, begin = Home(place.folder / ".rlft"), datetime(2026, 11, 23, 4, tzinfo=UTC)
    # Above all that can be reached, so that the champion is below it whatever it has learnt.
    reasons = {"score_below": {"suite": "small.yaml", "bound": 2.0}}
    content = {"name": "often", "config": "small.yaml", "cron": "* * * * *", "when": reasons}
    keep(home, Stored(content=content, folder=place.folder, since=begin))
    keep_state(home, "often", State(facts=Facts()))
    monkeypatch.chdir(place.folder)
    for name in ("ZENML_STORE_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    for minute in (1, 2):
        now = begin + timedelta(minutes=minute)
        Evaluating(home, find(home, "often"), clock=lambda now=now: now).look()
    second, first = state_of(home, "often").past
    assert (first.state, second.state) == ("finished", "no_reason")  # the same version on the same tasks
    assert "models:/tiny" in first.reason

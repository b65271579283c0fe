"""What `rlft estimate` prints, and its exit codes, with records that are made by hand."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from cli.app import make_app
from tests.rlft.estimation.made import make_config, make_run

ONE = (make_run(),)


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Runs the command on a config of which there are such runs, on a machine with so much memory."""
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(make_config().model_dump(mode="json")))
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words, runs=ONE, there=10**10, busy=1.0, file=file):
        monkeypatch.setattr("cli.estimate.check_start", lambda *_, **__: None)
        monkeypatch.setattr("cli.past_work.past_runs", lambda *_: list(runs))
        monkeypatch.setattr("rlft.readiness.policy.memory_bytes", lambda: there)
        monkeypatch.setattr("rlft.readiness.device.why_no_gpu", lambda: "there is none")
        monkeypatch.setattr("rlft.estimation.busy.busy_now", lambda: busy)
        return CliRunner().invoke(make_app(), ["estimate", str(file), *words])

    run.home = tmp_path / "home"
    return run


def test_ranges_of_stages_and_in_all(ask):
    done = ask("--price-per-hour", "36")
    assert done.exit_code == 0, done.output
    # 4 rounds of 10 attempts at 0.4 s, times 0.75 and 1.35; a past run had 2 rounds.
    assert "12 s to 22 s" in next(line for line in done.output.splitlines() if "sampling" in line)
    said = " ".join(done.output.split())
    assert "1 past run of this experiment here: first" in said
    assert "other settings: training.rounds." in said
    assert "900 to 1,620 are sampled in the rounds" in said
    assert "it fits" in said
    assert "Cost: " in said
    assert "GPU" not in said


def test_json_has_the_same_numbers(ask):
    found = json.loads(ask("--json", "--price-per-hour", "36").stdout)
    assert found["stages"]["sampling"]["low"] == pytest.approx(12)
    assert found["stages"]["sampling"]["high"] == pytest.approx(21.6)
    assert found["cost"]["low"] == pytest.approx(found["seconds"]["low"] / 100)
    assert found["tokens"]["rounds"] == {"low": pytest.approx(900), "high": pytest.approx(1620)}
    assert found["memory"]["needed"] == {"low": 1e9, "high": pytest.approx(1.1e9)}


def test_a_schedule_is_estimated_by_week_and_month_within_its_budget(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schedule = {"name": "daily", "config": "config.yaml", "cron": "0 4 * * *", "budget": {"tokens": 500}}
    (tmp_path / "daily.yaml").write_text(yaml.safe_dump(schedule))
    alone = json.loads(ask("--json", "--set", "budget.tokens=500").stdout)
    found = json.loads(ask("--json", "--price-per-hour", "36", file="daily.yaml").stdout)
    assert found["rounds"] == alone["rounds"] != json.loads(ask("--json").stdout)["rounds"]
    week = found["schedule"]["week"]
    assert week["due"] == pytest.approx(7)
    assert week["seconds"]["low"] == pytest.approx(7 * alone["seconds"]["low"])
    assert week["cost"]["high"] == pytest.approx(7 * alone["seconds"]["high"] / 100)
    said = " ".join(ask(file="daily.yaml").output.split())
    assert "What the schedule daily takes, in the mean" in said
    assert "runs │ 7 │ 30.4" in said  # the days of a mean month
    (tmp_path / "daily.yaml").write_text(yaml.safe_dump(schedule | {"cron": "* * * * *"}))
    assert "due times │ 10,080 │ 43,830" in " ".join(ask(file="daily.yaml").output.split())  # minutes of a week
    schedule["cron"] = "4 o'clock"
    (tmp_path / "daily.yaml").write_text(yaml.safe_dump(schedule))
    wrong = ask(file="daily.yaml")
    assert (wrong.exit_code, "cron" in wrong.output) == (2, True)


def test_too_little_memory_ends_with_2_and_names_settings(ask):
    done = ask(there=9 * 10**8)
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "it does not fit. Change " in said
    assert "rollout.max_completion_length=50" in said
    assert ask(there=1_050_000_000).exit_code == 0  # it may fit


def test_a_busy_machine_is_said(ask):
    assert "busy with 3.0 programs for each core" in " ".join(ask(busy=3.0).output.split())
    assert "busy" not in ask().output


def test_a_setting_that_is_changed_for_the_estimate(ask):
    twice = json.loads(ask("--json", "--set", "training.rounds=8").stdout)
    assert twice["stages"]["sampling"]["low"] == pytest.approx(24)
    assert twice["rounds"] == {"low": 8, "high": 8}


def test_without_records_the_servers_of_others_are_not_probed(ask):
    done = ask("--set", "rollout.engine=vllm_server", "--set", "rollout.server.addresses=[http://127.0.0.1:9]", runs=())
    assert done.exit_code == 2
    assert "a run may be sampling there" in " ".join(done.output.split())


def test_nothing_is_written(ask):
    ask()
    assert not ask.home.exists()

"""What `rlft estimate` prints, and its exit codes, with a probe that is made by hand."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from cli.app import make_app
from tests.rlft.estimation.made import make_config, make_round, probed

PROBED = probed(make_round(10, 4.0))


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Runs the command on a config that was probed so, on a machine with so much memory."""
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(make_config().model_dump(mode="json")))
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words, there=10**10):
        monkeypatch.setattr("cli.estimate.check_start", lambda *_, **__: None)
        monkeypatch.setattr("rlft.estimation.probe.run_probe", lambda *_: PROBED)
        monkeypatch.setattr("rlft.estimation.machine.memory_bytes", lambda: there)
        monkeypatch.setattr("rlft.estimation.machine.why_no_gpu", lambda: "there is none")
        return CliRunner().invoke(make_app(), ["estimate", str(file), *words])

    return run


def test_ranges_of_stages_and_in_all(ask, tmp_path):
    done = ask("--price-per-hour", "36")
    assert done.exit_code == 0, done.output
    # 4 rounds of 10 attempts at 0.4 s, times 0.6 and 1.6: 9.6 to 25.6 s
    assert "10 s to 26 s" in next(line for line in done.output.splitlines() if "sampling" in line)
    said = " ".join(done.output.split())
    assert "a probe of 20 s: a round of 10 attempts" in said
    assert "240 to 640 are sampled in the rounds" in said  # 10 tokens of 40 attempts
    assert "it fits" in said
    assert "Cost: " in said
    assert "GPU" not in said
    assert not (tmp_path / "home").exists()


def test_json_has_the_same_numbers(ask):
    found = json.loads(ask("--json", "--price-per-hour", "36").stdout)
    assert found["stages"]["sampling"]["low"] == pytest.approx(9.6)
    assert found["cost"]["low"] == pytest.approx(found["seconds"]["low"] / 100)
    assert found["tokens"]["rounds"] == {"low": pytest.approx(240), "high": pytest.approx(640)}
    twice = json.loads(ask("--json", "--set", "training.rounds=8").stdout)
    assert twice["stages"]["sampling"]["low"] == pytest.approx(19.2)


def test_too_little_memory_ends_with_2_and_names_settings(ask):
    done = ask(there=9 * 10**8)
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "it does not fit. Change " in said
    assert "rollout.max_completion_length=50" in said
    assert ask(there=2_000_000_000).exit_code == 0  # it may fit

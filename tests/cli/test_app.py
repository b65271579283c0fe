"""Bad input at the command line: a message that names the place and the way out, an exit code, never a traceback."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli.guard import Begun
from rlft.engines import kinds
from rlft.reporting import terminal
from tests.e2e.conftest import TINY


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run a command in this process, in an empty folder; fit for what fails before ZenML is needed."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setattr(terminal.errors, "_width", 200)
    return lambda *arguments: CliRunner().invoke(cli.make_app(), list(map(str, arguments)))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("training.num_generations=1", "num_generations=1 has no group to compare with; use at least 2"),
        ("training.rouns=3", "did you mean training.rounds?"),
        ("seed=first", "seed: Input should be a valid integer"),
        ("policy.model=x", "give `model` (a hub name or folder) or `from_scratch`: one of the two"),
        ("evaluation.num_generations=4", "samples the same answer again"),
        ("training.rounds", "is not key=value"),
        ("tasks.path=null", None),
    ],
)
def test_a_bad_setting_is_named(rlft, override, said):
    result = rlft("audit", TINY, "--set", override)
    if said is None:
        assert result.exit_code == 0, result.output  # null is what the setting is already
        return
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_help_lists_every_command_in_a_group(rlft):
    shown = rlft("--help").output
    groups = ("Train", "Look at runs", "Evaluate models", "The registry", "Serve models", "Clean up")
    places = [shown.index(f" {group} ") for group in groups]
    assert places == sorted(places)
    assert " Commands " not in shown


def test_a_missing_config_is_named(rlft):
    result = rlft("run", "nowhere.yaml")
    assert result.exit_code == 2
    assert "nowhere.yaml: no such file" in result.output


def test_a_failed_start_still_leaves_a_summary(rlft, tmp_path):
    result = rlft("run", TINY, "--set", "training.num_generations=1", "--summary", tmp_path / "s.json")
    assert result.exit_code == 2
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["status"] == "failed"
    assert "num_generations=1" in summary["error"]


def rows_file(folder: Path, *lines: str) -> list[str]:
    """Options that make a config read these JSONL lines."""
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    options = {"tasks": "{source: jsonl, path: rows.jsonl, splits: {train: 2, validation: 1, gate: 1, test: 1}}"}
    return [part for key, value in options.items() for part in ("--set", f"{key}={value}")]


def test_malformed_rows_are_listed_with_their_lines(rlft, tmp_path):
    good = [json.dumps({"prompt": f"{number} =", "answer": str(number)}) for number in range(9)]
    result = rlft("audit", TINY, *rows_file(tmp_path, *good, "{broken", '{"answer": "1"}'))
    assert result.exit_code == 2
    assert "rows.jsonl:10" in result.output
    assert "rows.jsonl:11" in result.output


def test_a_missing_task_file_is_named(rlft):
    result = rlft("audit", TINY, "--set", "tasks={source: jsonl, path: absent.jsonl}")
    assert result.exit_code == 2
    assert "absent.jsonl" in result.output


def test_an_environment_that_is_not_there_is_named(rlft):
    result = rlft("audit", TINY, "--set", "environment.name=nowhere:Thing")
    assert result.exit_code == 2
    assert "nowhere" in result.output


def test_an_audit_that_fails_shows_the_table_and_its_own_exit(rlft, tmp_path):
    (tmp_path / "generous.py").write_text(
        "import rlft\n\nclass Generous(rlft.BaseEnv):\n"
        "    async def compute_reward(self, completion, ground_truth):\n        return {'kind': 1.0}\n"
    )
    result = rlft("audit", TINY, "--set", "environment.name=generous.py:Generous")
    assert result.exit_code == 2
    assert "empty" in result.output
    assert "gold" in result.output
    assert "The audit fails, and `rlft run` would stop here." in result.output
    said = " ".join(result.output.split())
    assert "what to do: mend compute_reward until gold is full and beats every attack, or name in" in said
    told = rlft("audit", TINY, "--set", "environment.name=generous.py:Generous", "--json")
    assert json.loads(told.output)["passed"] is False


def test_a_weight_of_no_part_is_answered_with_the_nearest_before_anything_is_shown(rlft, tmp_path):
    (tmp_path / "graded.py").write_text(
        "import rlft\n\nclass Graded(rlft.BaseEnv):\n"
        "    async def compute_reward(self, completion, ground_truth):\n"
        "        return {'queue': float(completion.text == ground_truth)}\n"
    )
    result = rlft("audit", TINY, "--set", "environment.name=graded.py:Graded", "--set", "reward.weights={queu: 2.0}")
    assert result.exit_code == 2
    said = result.output
    assert "reward.weights: no rollout has a part named 'queu'" in said
    assert said.index("did you mean queue?") < said.index("The parts are: queue")
    assert "other_gold" not in said  # no table of zeros in front of it


def test_an_audit_that_passes_exits_with_zero(rlft):
    result = rlft("audit", TINY)
    assert result.exit_code == 0, result.output
    assert "gold" in result.output


def test_ui_says_when_there_is_nothing_to_show(rlft):
    result = rlft("ui")
    assert result.exit_code == 2
    assert "start a run first" in result.output


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "http://127.0.0.1:8123 "), ("::1", "http://[::1]:8123 ")])
def test_serve_engine_shows_an_address_that_a_config_takes(rlft, monkeypatch, host, shown):
    started = []
    monkeypatch.setattr(kinds, "is_installed", lambda _: True)
    monkeypatch.setattr(os, "execve", lambda program, command, variables: started.append(command))
    result = rlft("serve-engine", TINY, "--host", host, "--port", "8123")
    assert result.exit_code == 0, result.output
    assert shown in result.output
    assert started[0][started[0].index("--host") + 1] == host


@pytest.mark.parametrize("began", [False, True])
def test_resume_is_advised_only_where_a_run_had_begun(rlft, tmp_path, monkeypatch, began):
    def read(path):
        if began:
            (tmp_path / "first").mkdir()
            (tmp_path / "first" / "summary.json").write_text(json.dumps({"format": 2, "status": "failed"}))
        raise RuntimeError("a surprise")

    monkeypatch.delenv("RLFT_HOME", raising=False)
    monkeypatch.setattr("mlops.stacks.file.read_stack_file", read)
    # As `rlft run` notes it before its run begins.
    monkeypatch.setattr(
        "cli.guard.Begun", partial(Begun, folder=tmp_path / "first", resume="rlft resume first --stack team")
    )
    result = rlft("stack", "any.yaml")
    assert result.exit_code == 1
    assert "RuntimeError: a surprise" in result.output
    assert ("`rlft resume first --stack team` goes on from there" in " ".join(result.output.split())) is began
    assert ("rlft resume" in result.output) is began

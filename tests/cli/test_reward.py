"""`rlft reward`: what its commands print, their JSON, and their exit codes."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from cli import app as cli
from mlops.display import terminal

SPEC = {
    "says": "Name the capital.",
    "criteria": {
        "right": {"says": "The city is right.", "essential": True, "grader": {"type": "exact"}},
        "short": {"says": "It is short.", "weight": 0.5, "grader": {"type": "length", "at_most": 2}},
    },
    "cases": [
        {"attempt": "lima", "item": {"answer": "Lima"}, "at_least": 1.5, "reason": "Case does not count."},
        {"attempt": "Lima", "task": "peru", "at_least": 1.5, "reason": "The answer itself is full."},
    ],
}
ROWS = [{"q": f"Capital {n}?", "answer": f"City {n}", "id": str(n)} for n in range(30)]


@pytest.fixture
def reward(tmp_path, monkeypatch):
    """Run a command of `reward` in a folder with a config, a specification and tasks."""
    monkeypatch.chdir(tmp_path)
    for console in (terminal.errors, terminal.console):
        monkeypatch.setattr(console, "_width", 200)
    rows = [*ROWS, {"q": "The capital of Peru?", "answer": "Lima", "id": "peru"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    tasks = {"source": "jsonl", "path": "rows.jsonl", "prompt": "q", "id": "id"}
    tasks["splits"] = {"train": 19, "validation": 4, "gate": 4, "test": 4}
    policy = {"from_scratch": {"characters": "abc", "max_position_embeddings": 512}}
    config = {"name": "try", "tasks": tasks, "policy": policy, "reward": {"spec": "spec.yaml"}}
    (tmp_path / "try.yaml").write_text(yaml.safe_dump(config))

    def run(*arguments, code=0):
        result = CliRunner().invoke(cli.app, ["reward", *arguments])
        assert result.exit_code == code, result.output
        return result.stdout

    run.folder = tmp_path
    return run


def test_explain_says_it_in_words_and_scores_a_gold_attempt(reward):
    said = reward("explain", "try.yaml")
    assert "Name the capital." in said
    assert "A full attempt earns 1.5." in said
    assert "The total is 1.5 of 1.5." in said
    told = json.loads(reward("explain", "try.yaml", "--json"))
    assert told["example"]["total"] == told["example"]["full"] == 1.5
    (reward.folder / "rows.jsonl").unlink()
    assert "There is no example: " in reward("explain", "try.yaml")


def test_run_scores_an_attempt_and_says_why(reward):
    told = json.loads(reward("run", "try.yaml", "--attempt", "Cusco", "--task", "peru", "--json"))
    assert [(each["name"], each["found"], each["counts"]) for each in told["criteria"]] == [
        ("right", 0.0, 0.0),
        ("short", 1.0, 0.0),
    ]
    assert told["total"] == 0.0
    assert told["criteria"][1]["why"] == "it has 1 words, but right is essential and not met"
    (reward.folder / "attempt.json").write_text(json.dumps([{"role": "assistant", "content": "LIMA"}]))
    assert "The total is 1.5 of 1.5." in reward("run", "try.yaml", "--attempt", "attempt.json", "--task", "peru")
    assert "The total is 0 of 1.5." in reward("run", "try.yaml", "--attempt", "words of some length", "--task", "peru")
    reward("run", "try.yaml", "--attempt", "Lima", "--task", "chile", code=2)


def test_validate_runs_the_cases(reward):
    said = reward("validate", "try.yaml")
    assert "2 criteria can be used, and 1 of 2 cases hold." in said
    assert "1 of the cases name tasks" in said
    assert "2 of 2 cases hold" in reward("validate", "try.yaml", "--tasks")
    told = json.loads(reward("validate", "try.yaml", "--json", "--set", "reward.weights={short: 0.1}", code=2))
    assert told["passed"] is False
    assert told["cases"][0]["problem"] == "earns 1.1, not at least 1.5"
    assert told["cases"][1]["holds"] is None


def test_import_prints_a_specification_that_validates(reward):
    grader = {
        "type": "string_check",
        "name": "city",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
        "operation": "eq",
    }
    (reward.folder / "grader.json").write_text(json.dumps(grader))
    (reward.folder / "spec.yaml").write_text(reward("import", "grader.json"))
    assert "1 criteria can be used" in reward("validate", "try.yaml")
    (reward.folder / "grader.json").write_text("{}")
    reward("import", "grader.json", code=2)


def test_a_reward_that_is_code_has_nothing_to_explain(reward):
    for command in ("explain", "validate"):
        arguments = ["--set", "reward.spec=null", "--set", "environment.name=rlft.environments.maths:Maths"]
        reward(command, "try.yaml", *arguments, code=2)

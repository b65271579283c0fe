"""`rlft reward`: what its commands print, their JSON, and their exit codes."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from cli import app as cli
from rlft.reporting import terminal
from tests.rlft.engines.chat_servers import ChatServer

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
        result = CliRunner().invoke(cli.make_app(), ["reward", *arguments])
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


@pytest.mark.slow
def test_an_attempt_whose_score_does_not_come_is_cut(reward):
    (reward.folder / "mine.py").write_text(
        "def f(value, item):\n    while value == 'loop':\n        pass\n    return 1.0\n"
    )
    mine = {"mine": {"says": "It is mine.", "grader": {"type": "function", "function": "mine.py:f"}}}
    (reward.folder / "spec.yaml").write_text(yaml.safe_dump({"criteria": mine}))
    limit = ("--task", "peru", "--set", "reward.timeout_seconds=0.5")
    assert "The total is 1 of 1." in reward("run", "try.yaml", "--attempt", "x", *limit)
    reward("run", "try.yaml", "--attempt", "loop", *limit, code=2)


def test_a_file_with_a_function_of_python_itself_is_refused(reward):
    attempt = "__import__('pathlib').Path('ran').touch() or 1"
    mine = {"mine": {"says": "It is mine.", "grader": {"type": "function", "function": "builtins:eval"}}}
    case = {"attempt": attempt, "item": {}, "at_least": 0, "reason": "It is."}
    (reward.folder / "spec.yaml").write_text(yaml.safe_dump({"criteria": mine, "cases": [case]}))
    reward("validate", "try.yaml", code=2)
    assert not (reward.folder / "ran").exists()


def test_run_scores_an_attempt_and_says_why(reward):
    told = json.loads(reward("run", "try.yaml", "--attempt", "Cusco", "--task", "peru", "--json"))
    assert [(each["name"], each["found"], each["counts"]) for each in told["criteria"]] == [
        ("right", 0.0, 0.0),
        ("short", 1.0, 0.0),
    ]
    assert told["total"] == 0.0
    assert told["criteria"][1]["why"] == "it has 1 word, but right is essential and not met"
    (reward.folder / "attempt.json").write_text(json.dumps([{"role": "assistant", "content": "LIMA"}]))
    assert "The total is 1.5 of 1.5." in reward("run", "try.yaml", "--attempt", "attempt.json", "--task", "peru")
    assert "The total is 0 of 1.5." in reward("run", "try.yaml", "--attempt", "words of some length", "--task", "peru")
    reward("run", "try.yaml", "--attempt", "Lima", "--task", "chile", code=2)


@pytest.mark.parametrize("name", ["/tmp/nofile.json", "nofile.JSON", "./Lima", "../tries/Lima", "~/lima", "a/b.txt"])
def test_a_file_that_is_not_there_is_no_attempt(reward, name):
    result = CliRunner().invoke(cli.make_app(), ["reward", "run", "try.yaml", "--attempt", name])
    assert result.exit_code == 2
    assert f"--attempt: there is no file {name}" in result.output
    assert "put it into one" in result.output


@pytest.mark.parametrize(
    "text", ["see /tmp/nofile.json", "1/2", "and/or", '{"a":"b.json', "x = 1\ny.txt", "", "12.5", "</s>"]
)
def test_what_may_be_a_text_is_an_attempt(reward, text):
    assert "The total is" in reward("run", "try.yaml", "--attempt", text)


def test_validate_runs_the_cases(reward):
    said = reward("validate", "try.yaml")
    assert "2 criteria can be used, and 1 of 1 cases that were run hold." in said
    assert "1 more case names a task, which --tasks reads." in said
    assert "2 of 2 cases that were run hold" in reward("validate", "try.yaml", "--tasks")
    told = json.loads(reward("validate", "try.yaml", "--json", "--set", "reward.weights={short: 0.1}", code=2))
    assert told["passed"] is False
    assert told["cases"][0]["problem"] == "earns 1.1, not at least 1.5"
    assert told["cases"][1]["holds"] is None


def test_a_misspelt_column_is_why_there_is_no_example(reward):
    criteria = {"right": {"says": "So.", "grader": {"type": "exact", "gold": "{{item.answr}}"}}}
    (reward.folder / "spec.yaml").write_text(yaml.safe_dump({"criteria": criteria}))
    assert "no case was run" in reward("validate", "try.yaml")
    said = reward("explain", "try.yaml")
    assert "It is checked whether the answer is {{item.answr}}" in said
    assert "There is no example: reward.spec: the task's row has no item.answr" in said


def test_a_penalty_says_what_costs(reward):
    sorry = {"says": "It does not apologise.", "weight": -0.5, "grader": {"type": "contains", "texts": ["sorry"]}}
    (reward.folder / "spec.yaml").write_text(yaml.safe_dump({"criteria": {**SPEC["criteria"], "sorry": sorry}}))
    said = " ".join(reward("explain", "try.yaml").split())
    assert "It does not apologise. It is a penalty. It costs up to 0.5 if this is so: the answer holds sorry." in said
    assert "it costs nothing: " in reward("run", "try.yaml", "--attempt", "Lima")
    assert "it costs something: " in reward("run", "try.yaml", "--attempt", "sorry, Lima")


def test_a_reward_that_is_code_has_nothing_to_explain(reward):
    for command in ("explain", "validate"):
        arguments = ["--set", "reward.spec=null", "--set", "environment.name=rlft.environments.maths:Maths"]
        reward(command, "try.yaml", *arguments, code=2)


def judged_config(folder, url):
    """Let a judge decide one criterion, beside a number of words."""
    criteria = {
        "city": {"says": "It is a city.", "grader": {"type": "judge", "question": "Is it one city?"}},
        "short": {"says": "It is short.", "weight": 0.0, "grader": {"type": "length", "at_most": 3}},
    }
    judge = {"endpoint": url, "model": "small", "attempts": 1}
    (folder / "spec.yaml").write_text(yaml.safe_dump({"criteria": criteria, "judge": judge}))


def test_a_key_that_a_judge_tells_is_not_printed(reward, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "a-key-of-mine")
    with ChatServer(lambda body, number: '{"why": "Your key is a-key-of-mine.", "score": 1.0}') as server:
        judged_config(reward.folder, server.url)
        content = yaml.safe_load((reward.folder / "spec.yaml").read_text())
        content["judge"]["api_key"] = "env:JUDGE_KEY"
        (reward.folder / "spec.yaml").write_text(yaml.safe_dump(content))
        result = CliRunner().invoke(cli.make_app(), ["reward", "run", "try.yaml", "--attempt", "Lima"])
        told = reward("run", "try.yaml", "--attempt", "Lima", "--json")
    assert "Your key is ***." in result.stdout
    assert json.loads(told)["criteria"][0]["why"] == "Your key is ***."

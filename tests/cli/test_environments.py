"""`rlft environments check` in this process: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app as cli
from rlft.reporting import terminal

SHOP = '''
import rlft


class Shop(rlft.BaseEnv):
    """What something costs."""

    def __init__(self, currency="$"):
        self.currency = currency
        print("a shop opens")

    @rlft.tool
    def price(self, thing: str) -> str:
        """Say what something costs.

        Args:
            thing: What it is.
        """
        return {"tea": "3", "bread": "4"}[thing] + self.currency + " \\x1b[2J[red]"

    @rlft.reward(weight=2.0)
    def exact(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.metric
    def words(self, text):
        return float(len(text.split()))

    def gold_completion(self, task):
        function = {"name": "price", "arguments": {"thing": task.info["thing"]}}
        call = {"id": "1", "type": "function", "function": function}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "assistant", "content": task.answer},
        ]
'''
ROWS = [{"ask": f"Price of {thing}?", "is": is_, "thing": thing} for thing, is_ in (("tea", "3"), ("bread", "4"))]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Run `environments check` in a folder with a shop and two tasks."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    for console in (terminal.errors, terminal.console):
        monkeypatch.setattr(console, "_width", 200)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    fields = ["--tasks", "rows.jsonl", "--prompt", "ask", "--answer", "is"]
    return lambda name, *more: CliRunner().invoke(cli.make_app(), ["environments", "check", name, *fields, *more])


def test_a_sound_environment_is_shown_turn_by_turn(check):
    result = check("shop.py:Shop")
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.output.splitlines()]
    start = lines.index("user")
    assert lines[start : start + 8] == [
        "user", "  Price of tea?",
        "assistant, turn 1", '  price(thing="tea")',
        "tool price", "  3$ \\x1b[2J[red]",  # neither the terminal nor rich takes it for a command
        "assistant, turn 2", "  3",
    ]  # fmt: skip
    assert "exact  1      2" in result.output
    assert "total  2" in result.output
    assert "problems: none" in result.output


def test_a_csv_is_read_as_a_run_reads_it(check):
    Path("rows.csv").write_text("ask,is,thing\n" + "".join(f"{','.join(row.values())}\n" for row in ROWS))
    assert json.loads(check("shop.py:Shop", "--tasks", "rows.csv", "--json").stdout)["gold"] is True


def test_the_json_stands_alone_on_stdout(check):
    result = check("shop.py:Shop", "--json", "--kwargs", '{"currency": "EUR"}')
    report = json.loads(result.stdout)  # what the environment prints goes elsewhere
    assert set(report) == {"gold", "silence", "tools", "problems", "rollout"}
    assert (report["gold"], report["silence"], report["problems"]) == (True, True, [])
    assert "EUR" in report["rollout"]["messages"][2]["content"]
    assert "a shop opens" in result.stderr


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("shop.py:Stop", [], "there is no environment 'Stop'; what to do: name a class"),
        ("nowhere.py:Shop", [], "there is no file"),
        ("nowhere:Shop", [], "no module named 'nowhere'"),
        ("shop.py", [], "does not name a class"),
        ("shop.py:Shop", ["--kwargs", "{colour"], "--kwargs: not JSON"),
        ("shop.py:Shop", ["--kwargs", "[1]"], "--kwargs: a JSON list"),
        ("shop.py:Shop", ["--kwargs", '{"colour": 1}'], "environment.kwargs: Shop cannot be built"),
        ("shop.py:Shop", ["--tasks", "absent.jsonl"], "absent.jsonl: no such file"),
        ("shop.py:Shop", ["--answer", "cost"], "rows.jsonl:1: has no field 'cost'"),
    ],
)
def test_what_is_wrong_is_said_and_ends_with_2(check, name, more, said):
    result = check(name, *more)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "Traceback" not in result.output


def test_what_was_found_and_what_could_not_be_tried_are_told_apart(check):
    Path("shop.py").write_text(SHOP.replace("float(text == ground_truth)", "float(len(text) < 9)"))
    lines = check("shop.py:Shop").output.splitlines()
    assert "gold     earns the full reward on every task" in lines
    assert "silence  an empty answer earns something, or has no score" in lines
    Path("shop.py").write_text(SHOP.replace("float(text == ground_truth)", "1 / 0"))
    lines = check("shop.py:Shop").output.splitlines()
    assert "gold     does not earn the full reward on every task" in lines
    assert "silence  an empty answer earns something, or has no score" in lines
    assert not [line for line in check("shop.py:Stop").output.splitlines() if line.startswith(("gold ", "silence "))]


def test_a_syntax_error_is_a_problem_with_its_line(check):
    Path("shop.py").write_text(SHOP.replace("Shop(rlft.BaseEnv):", "Shop(rlft.BaseEnv)"))
    result = check("shop.py:Shop")
    assert result.exit_code == 2
    assert "SyntaxError: expected ':' shop.py:5: class Shop(rlft.BaseEnv)" in " ".join(result.output.split())
    (problem,) = json.loads(check("shop.py:Shop", "--json").stdout)["problems"]
    assert "SyntaxError: expected ':'" in problem


def test_problems_are_in_the_json_too(check):
    result = check("shop.py:Stop", "--json")
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    assert report["rollout"] is None
    assert (report["gold"], report["silence"]) == (None, None)
    (problem,) = report["problems"]
    assert "there: Shop" in problem

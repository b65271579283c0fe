"""`rlft show RUN ROUND` in this process: which rollouts are listed, and how one goes on from there."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli import show as show_cli
from mlops.runs import results as stored_rollouts
from mlops.runs.results import ScoredRound
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_task


def round_of_60():
    """Solved, wrong, without a score, and wrong after 2 failed calls: 15 of each."""
    rollouts = [
        make_rollout(f"t{index:02}", tool_calls=3, tool_errors=2 if index % 4 == 3 else 0) for index in range(60)
    ]
    totals = (1.0, 0.5, None, 0.5)
    rewards = tuple(make_reward(each, totals[place % 4], answer=f"a{place}\n") for place, each in enumerate(rollouts))
    tasks = {"t00": make_task("t00", "1 + 1 =", 2, split="gate")}
    return ScoredRound("baseline", Rollouts(tuple(rollouts)), Rewards(rewards, {}), {}, tasks)


@pytest.fixture
def show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(stored_rollouts, "open_run", lambda home, run, stack: None)
    monkeypatch.setattr(stored_rollouts, "load_round", lambda run, round: round_of_60())
    monkeypatch.setattr(show_cli.console, "_width", 200)
    return lambda *arguments: CliRunner().invoke(cli.make_app(), ["show", "runs-name", "baseline", *arguments])


def listed(result):
    """The places of the listed rollouts."""
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if "rollouts of" not in line and line.split()]
    return [int(line.split()[0]) for line in rows if line.split()[0].isdigit()]


@pytest.mark.parametrize(("kind", "places"), [("solved", 0), ("errors", 2), ("tool-errors", 3)])
def test_one_kind_of_them(show, kind, places):
    assert listed(show("--only", kind)) == list(range(places, 60, 4))
    assert [row["index"] for row in json.loads(show("--only", kind, "--json").stdout)] == list(range(places, 60, 4))


def test_what_has_no_score_is_not_unsolved(show):
    assert listed(show("--only", "unsolved")) == [place for place in range(60) if place % 4 in (1, 3)]


def test_the_best_and_worst_are_listed_with_failed_calls_and_the_command_that_shows_one(show):
    result = show()
    # 15 have 1, 30 have 0.5, 15 no score; the 25 best and the 25 worst leave out ten of those with 0.5.
    order = [each for kinds in ((0,), (1, 3), (2,)) for each in range(60) if each % 4 in kinds]
    assert listed(result) == order[:25] + order[35:]
    assert "60 rollouts of baseline, of which the 50 best and worst are listed (--limit 0 lists all)" in result.stdout
    assert "`rlft show runs-name baseline 0` shows the first one's conversation" in result.stdout
    assert listed(show("--limit", "0")) == order
    assert "`rlft show runs-name baseline 3`" in show("--only", "tool-errors", "--limit", "1").stdout
    assert len(json.loads(show("--json").stdout)) == 60


def test_the_list_says_what_was_asked_answered_and_right_and_what_it_earned(show, monkeypatch):
    lines = show().stdout.splitlines()
    assert lines[0].split() == ["prompt", "answer", "right", "answer", "reward", "error"]
    assert lines[1].split() == ["0", "1", "+", "1", "=", "a0", "2", "1"]
    one = show("0").stdout
    assert re.search(r"^right answer +2$", one, re.MULTILINE)
    assert re.search(r"^model's answer +a0$", one, re.MULTILINE)


def test_the_command_that_shows_one_can_be_pasted_into_a_shell(show):
    result = CliRunner().invoke(cli.make_app(), ["show", "sums, it's $(ls)", "baseline"])
    (command,) = re.findall("`(rlft show .*)` shows", result.stdout)
    assert shlex.split(command) == ["rlft", "show", "sums, it's $(ls)", "baseline", "0"]


def test_of_prompts_the_list_has_what_comes_after_the_words_that_all_begin_with():
    asked = ("Write about a river. Use old.", "Write about a road.", "Write  about a river. Use new.")
    rows = [{"prompt": text, "said": "Well, " * 9, "answer": None, "right_answer": None} for text in asked]
    # two columns share 40 characters; `r` is common to river and road, and begins no other word
    assert show_cli._texts(rows, 40) == {
        "prompt": ["river. Use old.", "road.", "river. Use new."],
        "answer": ["Well, Well, Well, We"] * 3,
    }
    assert show_cli._texts(rows[:1], 80)["prompt"] == ["Write about a river. Use old."]

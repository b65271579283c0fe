"""The cases of a specification, and the shipped one beside the Python reward that it stands for."""

import json
from pathlib import Path

import pytest

from rlft.config import RewardConfig
from rlft.config.section import SPECIFICATION
from rlft.config.yaml_text import read_yaml
from rlft.environments.contract.loading import load_environment
from rlft.rewards.cases import run_cases
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts
from tests.rlft.attempts import make_rollout, make_task

SNIPS = "rlft.environments.snips_slots:SnipsSlots"
PLAIN = "rlft.environments.specified:Plain"
SPEC = read_yaml((Path(__file__).resolve().parents[3] / "configs" / "rewards" / "snips_slots.yaml").read_text())
SLOTS = [
    {"slot": "city", "value": "New  York"},
    {"slot": "timeRange", "value": "noon"},
    {"slot": "city", "value": "rome"},
]
TASK = make_task("t", "weather in New York and Rome at noon", SLOTS, intent="GetWeather")


def call(name, arguments):
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def totals(environment, attempts):
    rows = [make_rollout(TASK, *environment_prompt(environment), each, sample=n) for n, each in enumerate(attempts)]
    return [
        (row.total, row.parts["intent"], row.parts["slots"])
        for row in score_rollouts(Rollouts(tuple(rows)), {"t": TASK}, environment, RewardConfig(timeout_seconds=20))
    ]


def environment_prompt(environment):
    from rlft.environments.contract.base import prompt_messages

    return prompt_messages(TASK, environment)


def test_the_shipped_specification_scores_as_the_python_reward():
    own = load_environment(SNIPS, {"tools": True})
    written = load_environment(SNIPS, {"tools": True, SPECIFICATION: json.dumps(SPEC)})
    gold = own.gold_completion(TASK)[0]
    attempts = [
        gold,
        call("GetWeather", {"city": "new york", "timeRange": "noon"}),  # two of three pairs
        call("GetWeather", {"city": ["rome", "New York", "Lima"]}),  # two in both, four in either
        call("GetWeather", {}),
        call("PlayMusic", {"year": "noon"}),
        call("GetWeather", {"city": ["rome", 5], "timeRange": "noon"}),  # no function takes a number
        {"role": "assistant", "content": "It is fine."},
    ]
    found = totals(written, attempts)
    assert found == [pytest.approx(each) for each in totals(own, attempts)]
    assert found[0] == (1.5, 1.0, 1.0)
    assert found[2] == pytest.approx((1.0, 1.0, 0.5))


def test_the_shipped_cases_hold():
    environment = load_environment(SNIPS, {"tools": True, SPECIFICATION: json.dumps(SPEC)})
    assert len(run_cases(environment, timeout_seconds=20)) == 5
    assert not any(case.failed for case in run_cases(environment, timeout_seconds=20))


def test_a_case_that_does_not_hold_says_what_it_earns_and_why_it_is_there():
    cases = [
        {"attempt": "Lima", "item": {"answer": "Lima"}, "at_most": 0.5, "reason": "On purpose."},
        {"attempt": "Lima", "task": "t", "at_least": 1.0, "reason": "Its task may be absent."},
        {"attempt": "Lima", "at_least": 1.0, "reason": "It has no row."},
    ]
    spec = {"criteria": {"right": {"says": "r", "grader": {"type": "exact"}}}, "cases": cases}
    environment = load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})
    first, second, third = run_cases(environment, timeout_seconds=20)
    assert str(first) == "case 1 earns 1, not at most 0.5 (On purpose.)"
    assert second.problem is None
    assert "the task's row has no item.answer" in third.problem
    all_cases = run_cases(environment, [make_task("t", "?", "Lima")], timeout_seconds=20)
    assert [case.failed for case in all_cases] == [True, False, True]
    # A weight of the config is that of the criterion: the total is 0.25.
    assert str(run_cases(environment, weights={"right": 0.25}, timeout_seconds=20)[0]) == "case 1 holds"


def test_an_environment_whose_reward_is_code_has_no_cases():
    assert run_cases(load_environment(SNIPS, {}), timeout_seconds=20) == []


def test_a_case_that_takes_too_long_has_no_total_and_the_next_one_is_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def f(value, item):\n    while value == 'loop':\n        pass\n    return 1.0\n")
    cases = [{"attempt": said, "at_least": 1, "reason": "It returns."} for said in ("loop", "x")]
    grader = {"type": "function", "function": f"{file}:f"}
    spec = {"criteria": {"mine": {"says": "m", "grader": grader}}, "cases": cases}
    environment = load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})
    first, second = map(str, run_cases(environment, timeout_seconds=0.5))
    assert first.startswith("case 1 has no total: no result within 0.5 s")
    assert second == "case 2 holds"

"""Environments whose reward is a specification: loaded by name, in this process or another, and told apart."""

import asyncio
import json

import pytest

from rlft.config import RewardConfig
from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.several import specification_of
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import EnvironmentSetupError, RewardError
from rlft.rewards.scoring import score_rollouts
from rlft.types import Trajectory
from tests.rlft.attempts import answered, make_task

CITY = {
    "says": "Name the city.",
    "criteria": {
        "right": {"says": "The city is right.", "grader": {"type": "exact"}, "essential": True},
        "short": {"says": "It is short.", "weight": 0.5, "grader": {"type": "length", "at_most": 2}},
        "apology": {"says": "It apologises.", "weight": -0.25, "grader": {"type": "contains", "texts": ["sorry"]}},
    },
}
SNIPS = "rlft.environments.snips_slots:SnipsSlots"
TASK = make_task("t", "The capital of Peru?", "Lima")


def load(spec, name=PLAIN, **kwargs):
    return load_environment(name, {**kwargs, SPECIFICATION: json.dumps(spec)})


def scores(environment, *texts, **settings):
    return score_rollouts(
        answered(TASK, *texts), {"t": TASK}, environment, RewardConfig(**{"timeout_seconds": 20, **settings})
    ).rows


def test_parts_add_up_to_the_total_also_behind_a_gate():
    right, wrong, sorry = scores(load(CITY), "lima", "Cusco", "Cusco, sorry")
    assert right.total == 1.5
    assert right.solved
    assert right.parts == {"right": 1.0, "short": 1.0, "apology": 0.0, "essentials": 1.0}
    # Short as it is, it is paid for nothing, as the essential criterion is not met.
    assert wrong.total == 0.0
    assert wrong.parts == {"right": 0.0, "short": 0.0, "apology": 0.0, "essentials": 0.0}
    assert sorry.total == -0.25  # a penalty costs all the same


@pytest.mark.slow
def test_a_worker_process_makes_it_again():
    [row] = scores(load(CITY), "Lima", isolation="process", processes=1)
    assert row.error is None
    assert row.total == 1.5


def test_only_the_reward_changes_with_the_specification():
    other = {**CITY, "criteria": {**CITY["criteria"], "short": {**CITY["criteria"]["short"], "weight": 0.4}}}
    words = {**CITY, "says": "Another sentence."}
    prints = [
        environment_fingerprints(load(each), PLAIN, {SPECIFICATION: json.dumps(each)}) for each in (CITY, other, words)
    ]
    assert len({each.harness for each in prints}) == 1
    assert prints[0].reward != prints[1].reward
    assert prints[0].reward == prints[2].reward
    bare = load_environment(SNIPS, {})
    snips = load(CITY, SNIPS)
    same = [environment_fingerprints(each, SNIPS, {}) for each in (bare, snips)]
    assert same[0].harness == same[1].harness
    assert same[0].reward != same[1].reward


def test_tools_and_context_stay_and_the_reward_is_replaced():
    environment = load(CITY, SNIPS, tools=True)
    assert type(environment).__name__ == "SnipsSlots"
    assert len(asyncio.run(environment.list_tools())) == 7
    assert "function call" in environment.context(TASK).system_prompt
    assert set(environment.reward_weights()) == {"right", "short", "apology", "essentials"}
    assert specification_of(environment).says == "Name the city."
    assert specification_of(load_environment(SNIPS, {})) is None


def test_an_empty_specification_is_an_environment_that_does_not_score():
    environment = load_environment(PLAIN, {SPECIFICATION: ""})
    assert specification_of(environment) is None
    with pytest.raises(EnvironmentSetupError, match="does not say what an attempt is worth"):
        load_environment(PLAIN, {})


def test_the_gold_is_the_answer_or_as_the_specification_writes_it():
    assert load(CITY).gold_completion(TASK) == "Lima"
    assert load({**CITY, "gold": "It is {{item.answer}}."}).gold_completion(TASK) == "It is Lima."


@pytest.mark.parametrize("answer", ['a "b" c', "back\\slash", "two\nlines", "Łódź", 'end"', ["x", "y"], 3])
def test_an_answer_within_json_leaves_the_json_whole(answer):
    task = make_task("t", "q", answer)
    gold = load({**CITY, "gold": '{"t": "{{item.answer}}", "n": 1}'}).gold_completion
    said = answer if isinstance(answer, str) else json.dumps(answer)
    assert json.loads(gold(task)) == {"t": said, "n": 1}


@pytest.mark.parametrize("grader", [{"type": "list"}, {"type": "list", "separator": "/", "ordered": True}])
def test_an_answer_that_is_a_list_is_full_as_it_is_written(grader):
    environment = load({"criteria": {"tags": {"says": "The tags.", "grader": grader}}})
    task = make_task("t", "q", ["a, b", "c"])
    attempt = Trajectory([{"role": "assistant", "content": environment.gold_completion(task)}], task=task)
    assert asyncio.run(environment.compute_reward(attempt, task.answer)) == {"tags": 1.0}


def test_what_cannot_be_asked_is_refused_before_anything_is_sampled():
    judge = {"says": "Polite.", "grader": {"type": "judge", "question": "Is it polite?"}}
    with pytest.raises(RewardError, match="asks a judge, and there is none"):
        load({"criteria": {"polite": judge}})
    function = {"says": "f", "grader": {"type": "function", "function": "nowhere:f"}}
    with pytest.raises(EnvironmentSetupError, match="no module named"):
        load({"criteria": {"f": function}})


def test_a_task_without_the_column_is_an_error_and_no_zero():
    spec = {"criteria": {"right": {"says": "r", "grader": {"type": "exact", "gold": "{{item.city}}"}}}}
    [row] = scores(load(spec), "Lima")
    assert row.total is None
    assert "the task's row has no item.city" in row.error.why


def test_the_config_and_the_environment_read_the_same():
    reward = RewardConfig.model_validate({"spec": CITY})
    environment = load_environment(PLAIN, {SPECIFICATION: reward.spec.model_dump_json(exclude_defaults=True)})
    assert specification_of(environment) == reward.spec
    completion = Trajectory([{"role": "assistant", "content": "Lima"}], task=TASK)
    assert asyncio.run(environment.compute_reward(completion, "Lima"))["right"] == 1.0

"""An error of an environment's own code says its file, its line and what there is, wherever it is shown."""

import asyncio
import inspect
import logging
from pathlib import Path

import pytest

from rlft.config import HarnessConfig, RewardConfig, WarmStartConfig
from rlft.environments.calculator import Calculator
from rlft.environments.contract.faults import described, failure_of
from rlft.errors import EnvironmentSetupError, TaskError
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.messages import make_call
from rlft.outcome import Failure
from rlft.rewards.audit.environment import check_environment
from rlft.rewards.scoring import score_rollouts
from rlft.training.demonstrations import choose_demonstrations
from rlft.types import Rollouts, Task
from tests.rlft.attempts import audited
from tests.rlft.environments.contract import user_code
from tests.rlft.environments.contract.user_code import Asks

FILE = Path(user_code.__file__)
HAS = "has: id, queue, when"
ARTICLE = {"name": "look_up", "description": "Read an article.", "parameters": {"country": "Its name."}}


def make_task(id="t1", answer="Lima"):
    prompt = ({"role": "user", "content": "The capital of Peru?"},)
    info = {"id": id, "queue": "maps", "when": 7}
    return Task(id=id, environment="", prompt=prompt, answer=answer, info=info, split="train", group=id)


TASKS = [make_task(f"t{n}", f"City {n}") for n in range(1, 5)]


def place(function):
    """`file.py:line` of the last line of a function of the user's file, as a person reads it."""
    lines = FILE.read_text().splitlines()
    code = function.__code__
    first = next(n for n, line in enumerate(lines, start=1) if n >= code.co_firstlineno and "def " in line)
    last = first
    while last < len(lines) and lines[last].strip():
        last += 1
    return f"{FILE.relative_to(Path.cwd())}:{last}"


def raised(function, given):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any at all
        function(given)
    return caught.value


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (user_code.of_info, f"KeyError: 'text', at {place(user_code.of_info)}; task.info {HAS}"),
        (
            user_code.of_the_prompt,
            "AttributeError: 'tuple' object has no attribute 'split', at " + place(user_code.of_the_prompt),
        ),
    ],
)
def test_it_says_the_line_and_what_a_tasks_info_has(function, said):
    assert described(raised(function, make_task()), make_task()) == said


def test_the_place_is_the_users_line_and_not_the_librarys():
    text = described(raised(user_code.of_a_library, make_task()))
    assert text == f"JSONDecodeError: Expecting value: line 1 column 1 (char 0), at {place(user_code.of_a_library)}"


def test_an_error_that_names_its_own_way_out_stays_as_it_is():
    text = described(raised(user_code.of_a_tool_that_says_why, make_task()))
    assert text == "TaskError: here: no text\n  what to do: write one"


def test_nothing_in_it_steers_a_terminal():
    text = described(raised(user_code.of_an_escape, make_task()))
    assert text.startswith(r"ValueError: \x1b[31mred, at ")


def test_a_failure_has_the_type_of_its_error_and_the_users_line():
    failure = failure_of("setup", raised(user_code.of_info, make_task()), make_task())
    assert failure == Failure("setup", f"KeyError: 'text', at {place(user_code.of_info)}; task.info {HAS}")
    assert (failure.raised, failure.place) == ("KeyError", place(user_code.of_info))
    named = failure_of("setup", TaskError("no text, at x.py:3"))  # its own words name no line
    assert (named.why, named.raised, named.place) == ("TaskError: no text, at x.py:3", "TaskError", "")


# Where it is shown.


def play(environment, *said):
    script = as_script(said[0]) if len(said) == 1 else as_script(said)
    (rollout,) = play_scripts([Part("r", make_task(), script)], environment)
    return rollout


def score(environment, rollout):
    tasks = {"t1": make_task()}
    rewards = score_rollouts(Rollouts((rollout,)), tasks, environment, RewardConfig(timeout_seconds=5.0))
    return rewards.rows[0]


ERROR = f"KeyError: 'text', at {place(user_code.of_info)}; task.info {HAS}"


@pytest.mark.parametrize(("method", "where"), [("context", "setup"), ("setup", "setup")])
def test_in_the_rollouts_error_before_the_first_turn(method, where):
    assert play(Asks(**{method: user_code.of_info}), "x").error == Failure(where, ERROR)


def test_in_the_rollouts_error_after_an_answer():
    error = play(Asks(respond=user_code.of_a_completion), "x").error
    said = "respond: AttributeError: 'Trajectory' object has no attribute 'strip'"
    assert str(error) == f"{said}, at {place(user_code.of_a_completion)}"


def test_in_the_rewards_error_and_once_in_the_log(caplog):
    environment = Asks(compute_reward=lambda completion: user_code.of_info(completion.task))
    parts = [Part(f"{task.id}/{n}", task, as_script("x")) for task in TASKS for n in range(3)]
    rollouts = Rollouts(tuple(play_scripts(parts, environment)))
    tasks = {task.id: task for task in TASKS}
    rewards = score_rollouts(rollouts, tasks, environment, RewardConfig(timeout_seconds=5.0))
    assert {reward.error for reward in rewards} == {Failure("compute_reward", ERROR)}
    (record,) = caplog.records
    assert record.getMessage() == f"12 of 12 rollouts, on 4 tasks, have no score: compute_reward: {ERROR}"


def test_where_tools_are_listed():
    (problem,) = check_environment(Asks(list_tools=lambda _: user_code.ARTICLES["Chad"]), TASKS).problems
    assert problem.startswith("Asks.list_tools: KeyError: 'Chad', at ")


def test_what_a_tool_raises_is_told_to_the_author_and_not_to_the_model(caplog):
    caplog.set_level(logging.INFO)
    asks = {"role": "assistant", "content": "", "tool_calls": [make_call("look_up", {"country": "Chad"}, "1")]}
    golds = {"list_tools": lambda _: [ARTICLE], "gold_completion": lambda task: [asks, *as_script(task.answer)]}
    environment = Asks(**golds)
    line = f"KeyError: 'Chad', at {place(Asks.run_tool)}"
    for _ in range(3):
        rollout = play(environment, asks, *as_script("x"))
        assert rollout.messages[2]["content"] == "error: KeyError: 'Chad'"
    (record,) = caplog.records
    assert record.getMessage() == f"tool look_up: {line} (the model is told; said here once)"
    problems = check_environment(environment, TASKS).problems
    assert (
        f"tool look_up: a call of the gold conversation failed: {line} (gold on task t1, and 3 more); what"
        in problems[0]
    )


def test_what_a_shipped_tool_refuses_is_told_to_the_model_alone(caplog):
    caplog.set_level(logging.INFO)
    call = make_call("calculate", {"expression": "2 **"}, "1")
    asks = {"role": "assistant", "content": "", "tool_calls": [call]}
    rollout = play(Calculator(), asks, *as_script("x"))
    assert rollout.messages[-2]["content"].startswith("error: ValueError: ")
    assert not caplog.records


def test_in_the_check_once_with_how_many_tasks_it_concerns():
    problems = check_environment(Asks(gold_completion=user_code.of_info), TASKS).problems
    assert [problem for problem in problems if "KeyError" in problem] == [
        f"gold_completion: failed on 4 of 4 tasks, for example t1: {ERROR}; what to do: mend this line; it must work "
        "for every task"
    ]
    assert not any("no task has a gold" in problem for problem in problems)


def test_in_the_audit_once_with_how_many_tasks_it_concerns():
    report = audited(TASKS, Asks(gold_completion=user_code.of_info))
    assert report.findings[0].startswith(f"gold_completion failed on 4 of 4 tasks, for example t1: {ERROR}; ")
    environment = Asks(compute_reward=lambda completion: user_code.of_info(completion.task))
    report = audited(TASKS, environment)
    [found] = [finding for finding in report.findings if "KeyError" in finding]
    kinds, _, said = found.partition(" could not be scored ")
    assert kinds.startswith("gold, empty, echo, constant, other_gold, ")
    assert said.startswith(f"on 4 tasks, for example t1: compute_reward: {ERROR}; what to do: return ")


def test_a_demonstration_that_fails_names_the_task():
    with pytest.raises(EnvironmentSetupError) as caught:
        choose_demonstrations(WarmStartConfig(steps=1), TASKS, Asks(demonstration=user_code.of_info))
    assert caught.value.where == "demonstration"
    assert caught.value.what == f"{ERROR} (task t1)"


def test_a_time_out_names_the_line_that_waits():
    class Waits(Asks):
        async def setup(self, task):
            await asyncio.sleep(60)

    (rollout,) = play_scripts(
        [Part("r", make_task(), as_script("x"))], Waits(), HarnessConfig(tool_timeout_seconds=0.1)
    )
    line = inspect.getsourcelines(Waits.setup)[1] + 1
    assert str(rollout.error) == f"setup: Late: longer than 0.1 s, at {Path(__file__).relative_to(Path.cwd())}:{line}"

"""The contract: marked methods, their defaults, and classes that were written for it elsewhere."""

import asyncio

import pytest

import rlft
from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv, Context, context_of, live_states, prompt_messages
from rlft.environments.contract.loading import load_environment
from rlft.errors import EnvironmentSetupError
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts, Trajectory
from tests.factories import make_rollout, make_task, user


class Marked(rlft.BaseEnv):
    """The convenient form."""

    @rlft.tool
    def add(self, a: int, b: int, state: dict) -> int:
        """Add two numbers."""
        state["calls"] = state.get("calls", 0) + 1
        return a + b

    @rlft.tool
    async def slow_add(self, a: int, b: int) -> int:
        """Add two numbers slowly."""
        await asyncio.sleep(0)
        return a + b

    @rlft.reward(weight=2.0)
    def right(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.reward
    async def short(self, completion):
        return float(len(completion.text) < 4)

    @rlft.metric
    def length(self, text):
        return len(text)


class Child(Marked):
    """Takes a part away and adds one."""

    short = None

    @rlft.reward(weight=-1.0)
    def late(self, state):
        return float(state.get("late", 0))


def trajectory(text, **state):
    return Trajectory([{"role": "assistant", "content": text}], task=make_task(), state=state)


def test_marked_methods_are_tools():
    environment = Marked()
    tools = asyncio.run(environment.list_tools())
    assert [tool.name for tool in tools] == ["add", "slow_add"]
    assert "state" not in tools[0].parameters["properties"]
    live_states(environment)["r"] = {}
    assert asyncio.run(environment.run_tool("r", "add", a=1, b=2)) == 3
    assert environment.state("r") == {"calls": 1}
    assert asyncio.run(environment.run_tool("r", "slow_add", a=1, b=2)) == 3
    for name in ("right", "compute_reward", "gone"):  # no method but a marked one can be called by a model
        with pytest.raises(LookupError, match=name):
            asyncio.run(environment.run_tool("r", name))


def test_marked_methods_are_parts_of_the_reward():
    parts = asyncio.run(Marked().compute_reward(trajectory("12"), "12"))
    assert parts == {"right": 1.0, "short": 1.0, "length": 2}
    assert Marked().reward_weights() == {"right": 2.0, "short": 1.0, "length": 0.0}
    parts = asyncio.run(Child().compute_reward(trajectory("12345", late=True), "12"))
    assert parts == {"right": 0.0, "length": 5, "late": 1.0}
    assert Child().reward_weights() == {"right": 2.0, "length": 0.0, "late": -1.0}


def test_their_weights_count_unless_the_config_says_others():
    task = make_task(answer="2")
    rollouts = Rollouts((make_rollout(),))

    def score(weights):
        return score_rollouts(rollouts, {"t0": task}, Marked(), RewardConfig(weights=weights, timeout_seconds=5)).rows[
            0
        ]

    # parts: right 1, short 1, length 1 ("2"); own weights 2, 1, 0
    assert (score({}).total, score({}).solved) == (3.0, True)
    assert (score({"right": 10.0, "length": 0.5}).total, score({"length": -1.0}).total) == (11.5, 2.0)


def test_a_weight_is_a_number():
    for weight in ("1", True, float("nan")):
        with pytest.raises(EnvironmentSetupError, match="not a finite number"):
            rlft.reward(weight=weight)


def test_a_marked_part_says_what_is_full():
    class Points(Marked):
        @rlft.reward(weight=0.5, maximum=10)
        def points(self, text):
            return 10 * float(text == "2")

    assert Points().reward_maxima() == {"right": 1.0, "short": 1.0, "points": 10.0}
    rollouts = Rollouts((make_rollout(),))
    tasks = {"t0": make_task(answer="2")}
    (row,) = score_rollouts(rollouts, tasks, Points(), RewardConfig(timeout_seconds=5))
    assert (row.total, row.solved) == (2 * 1 + 1 * 1 + 0.5 * 10, True)
    for maximum in ("1", True, float("inf"), -1.0):
        with pytest.raises(EnvironmentSetupError, match=r"maximum=.* is (not a finite number|below 0)"):
            rlft.reward(maximum=maximum)


def test_marks_alone_make_an_environment(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import rlft\n\nclass Mine(rlft.BaseEnv):\n    @rlft.reward\n    def one(self, text):\n        return 1.0\n"
    )
    assert isinstance(load_environment(f"{path}:Mine", {}), BaseEnv)
    path.write_text("import rlft\n\nclass Mine(rlft.BaseEnv):\n    pass\n")
    with pytest.raises(EnvironmentSetupError, match="what an attempt is worth"):
        load_environment(f"{path}:Mine", {})


class Says(BaseEnv):
    def __init__(self, said):
        self.said = said

    def context(self, task):
        return self.said


@pytest.mark.parametrize("said", ["Be brief.", {"system_prompt": "Be brief."}, Context("Be brief.", "full")])
def test_a_context_may_be_said_in_three_ways(said):
    assert prompt_messages(make_task(), Says(said)) == ({"role": "system", "content": "Be brief."}, user("1+1="))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"prompt": "x"}, "is no context"),
        (3, "is no context"),
        ({"system_prompt": 3}, "is no context"),
        ({"history": "last_turn"}, "is no context"),
    ],
)
def test_what_is_no_context(said, text):
    with pytest.raises(EnvironmentSetupError, match=text):
        context_of(make_task(), Says(said))


def test_turns_are_the_model_s_messages_with_what_they_were_answered():
    said = [
        {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "b"},
    ]
    first, second = Trajectory(said, task=make_task()).turns
    assert (first.number, first.message, first.results) == (0, said[0], tuple(said[1:3]))
    assert (second.number, second.message["content"], second.results) == (1, "b", ())
    assert Trajectory([], task=make_task()).turns == []


def test_a_reward_is_per_attempt_or_per_turn():
    with pytest.raises(EnvironmentSetupError, match="per='token' is unknown"):
        rlft.reward(per="token")

"""What counts as a use of the calculator."""

from __future__ import annotations

import pytest

from rlft.config import RewardConfig
from rlft.environments.calculator import Calculator
from rlft.harness.scripted import Part, play_scripts
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts
from tests.rlft.attempts import make_task
from tests.rlft.environments.playing import calls, says


class InWords(Calculator):
    """Its results begin with a word that failed calls begin with, too."""

    def calculate(self, expression: str) -> str:
        return f"error: 0, result: {super().calculate(expression)}"

    calculate.__dict__.update(Calculator.calculate.__dict__)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [Calculator(), InWords()])
@pytest.mark.parametrize(
    ("call", "used"),
    [
        (("calculate", {"expression": "2 + 3"}), 1.0),
        (("calculate", {"expression": "2 +"}), 0.0),
        (("calculate", {}), 0.0),
        (("calculator", {"expression": "2 + 3"}), 0.0),
    ],
)
def test_a_call_that_failed_is_no_use_of_the_tool(environment, call, used):
    task = make_task("t1", "2 + 3 =", "5")
    rollouts = play_scripts([Part("r", task, (calls(call), says("5")))], environment)
    (row,) = score_rollouts(Rollouts(tuple(rollouts)), {"t1": task}, environment, RewardConfig(timeout_seconds=5.0))
    assert row.parts == {"correct": 1.0, "used_tool": used}

"""What supervised training and prompts can show: rows of a file, gold answers, and demonstrations."""

from __future__ import annotations

import json

import pytest

from rlft.config import WarmStartConfig
from rlft.environments.calculator import Calculator
from rlft.environments.contract.base import BaseEnv
from rlft.errors import TaskError
from rlft.training.demonstrations import all_demonstrations, can_demonstrate, choose_demonstrations
from tests.factories import make_task


class WithoutGold(BaseEnv):
    def gold_completion(self, task):
        return None


class Demonstrates(WithoutGold):
    """Has no gold, and demonstrates some."""

    def demonstration(self, task):
        return "a guess" if task.answer == "2" else None


TRAIN = [make_task(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(3) for b in range(3)]
SETTINGS = WarmStartConfig(steps=5, demonstrations=2)


@pytest.fixture
def file(tmp_path):
    row = {"messages": [{"role": "user", "content": "7+1="}, {"role": "assistant", "content": "8"}]}
    path = tmp_path / "shown.jsonl"
    path.write_text(3 * (json.dumps(row) + "\n"))
    return SETTINGS.model_copy(update={"path": str(path)})


def sizes(*given, **options):
    return {answers: len(shown) for answers, shown in all_demonstrations(*given, **options).items()}


def test_all_answers_are_shown_and_the_sample_of_the_file_before_them(file):
    assert sizes(SETTINGS, TRAIN, BaseEnv()) == sizes(None, TRAIN, BaseEnv()) == {"gold": 9}  # the warm start shows 2
    assert sizes(file, TRAIN, BaseEnv()) == {"gold": 2 + 9, "file": 2}
    assert sizes(file, TRAIN, BaseEnv(), most=4) == {"gold": 4, "file": 2}
    assert sizes(file, TRAIN, BaseEnv(), most=1) == {"file": 1}
    assert sizes(file, TRAIN, WithoutGold()) == {"file": 2}
    assert sizes(SETTINGS, TRAIN, WithoutGold()) == {}
    assert sizes(SETTINGS, TRAIN, Demonstrates()) == {"gold": 3}  # 0 + 2, 1 + 1 and 2 + 0: no other answer is known
    assert sizes(SETTINGS, TRAIN, Demonstrates(), most=2) == {"gold": 2}
    with pytest.raises(TaskError, match="no train task has a gold answer"):
        choose_demonstrations(SETTINGS, TRAIN, WithoutGold())


def test_there_is_something_to_show_if_there_is_a_file_or_an_answer(file):
    assert can_demonstrate(None, TRAIN, BaseEnv())
    assert can_demonstrate(SETTINGS, TRAIN, Demonstrates())
    assert can_demonstrate(file, TRAIN, WithoutGold())
    assert not can_demonstrate(SETTINGS, TRAIN, WithoutGold())


def test_the_gold_of_the_calculator_always_calls_it_and_a_quarter_of_its_demonstrations_does():
    tasks = [make_task(f"t{n}", f"{n} + 4 - 2 =", str(n + 2)) for n in range(400)]
    found = all_demonstrations(None, tasks, Calculator(shown_with_tool=0.25))
    calls = {answers: sum("tool_calls" in one.turns[0] for one in shown) for answers, shown in found.items()}
    assert calls["gold"] == len(found["gold"]) == len(found["demonstration"]) == 400
    assert 75 <= calls["demonstration"] <= 125  # 100 with a standard deviation of 8.7
    assert [message["role"] for message in found["gold"][0].turns] == ["assistant", "tool", "assistant"]
    warm = choose_demonstrations(WarmStartConfig(steps=1, demonstrations=400), tasks, Calculator(shown_with_tool=0.25))
    assert warm == found["demonstration"]  # the warm start shows what the environment demonstrates

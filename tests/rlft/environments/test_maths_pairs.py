import asyncio

import pytest

from rlft.environments.maths import Maths
from rlft.types import Trajectory
from tests.rlft.attempts import make_task
from tests.rlft.environments.maths_pairs import RIGHT, WRONG


def correct(gold, answer):
    task = make_task("m", "What is it?", gold)
    completion = Trajectory([{"role": "assistant", "content": f"So it is \\boxed{{{answer}}}"}], task=task)
    return asyncio.run(Maths().compute_reward(completion, gold))["correct"]


@pytest.mark.parametrize(("gold", "answer", "why"), RIGHT.values(), ids=RIGHT)
def test_a_mathematician_says_yes(gold, answer, why):
    assert correct(gold, answer) == 1.0, why


@pytest.mark.parametrize(("gold", "answer", "why"), WRONG.values(), ids=WRONG)
def test_a_mathematician_says_no(gold, answer, why):
    assert correct(gold, answer) == 0.0, why


def test_every_gold_is_its_own_answer():
    golds = sorted({gold for gold, *_ in [*RIGHT.values(), *WRONG.values()]})
    assert [gold for gold in golds if correct(gold, gold) != 1.0] == []

"""Attempts that are nearly gold, sentences of another meaning, and what is evaluated instead of compared: by value."""

import re

import pytest

from rlft.environments.contract.base import BaseEnv
from rlft.harness.scripted import as_script
from rlft.rewards.audit.attacks import KINDS
from rlft.rewards.audit.attacks.base import Known, Pool, other_gold
from rlft.rewards.audit.attacks.texts import text_of
from tests.rlft.attempts import audited, make_task


def known(gold, other, **info):
    tasks = [make_task("t0", info.pop("prompt", "Question?"), gold, **info), make_task("t1", "Another?", other)]
    scripts = {task.id: as_script(task.answer) for task in tasks}
    pool = Pool.of(scripts, tasks)
    return Known(tasks[0], scripts["t0"], other_gold(tasks[0], tasks, scripts, pool, 0), pool)


def said(kind, of):
    return [text_of(script) for script in KINDS[kind].scripts(of)]


NUMBER = known("#### 500", "#### 20")
WHO = "Here Ann will give the key to Ben on Monday"


@pytest.mark.parametrize(
    ("kind", "of", "texts"),
    [
        ("wrong_sign", NUMBER, ["#### -500"]),
        ("wrong_sign", known("-5", "8"), ["5"]),
        ("wrong_sign", known("0", "8"), []),
        ("other_unit", known("12 km", "90 m"), ["12 mm"]),
        ("other_unit", known("It is 12 km.", "It is 90 km."), ["It is 12 mm."]),
        ("other_unit", known("12 km", "90 km"), ["12 mm"]),  # the unit stands in the form that golds share
        ("other_unit", known("12 legs", "9 legs"), []),
        ("negated_inside", known(WHO, "x"), [WHO.replace("will", "will not")]),
        ("negated_inside", known("It is not what we had expected", "x"), ["It is what we had expected"]),
        ("negated_inside", known("It is so", "x"), []),  # too short for a sentence
        ("reversed", known("planet", "garden"), ["tenalp"]),
        ("reversed", known("level", "garden"), []),
        ("item_repeated", known("red, green, blue", "pink, black"), ["red, red, red"]),
        ("item_repeated", known('["a", "b"]', '["c"]'), ['["a", "a"]']),
        ("item_repeated", known("red, Red", "pink, black"), []),
    ],
)
def test_an_attempt_by_value(kind, of, texts):
    assert said(kind, of) == texts


def test_gold_is_named_by_its_variables_and_columns():
    names = said("gold_by_name", known("Lima", "Oslo", city="Lima", land="Peru"))
    assert {"ground_truth", "answer", "{{item.answer}}", "city"} <= set(names)
    assert "land" not in names


class Pays(BaseEnv):
    """Pays what a function of (text, gold) says."""

    def __init__(self, pay):
        self.pay = pay

    def compute_reward(self, completion, ground_truth):
        return {"part": float(self.pay(completion.text.strip(), ground_truth))}


def audit(environment, tasks):
    return audited(tasks, environment, timeout_seconds=2.0)


def evaluated(text, gold):
    try:
        return eval(text, {"answer": float(gold)}) == float(gold)
    except Exception:
        return False


def matched(text, gold):
    try:
        return re.fullmatch(text, gold) is not None
    except re.error:
        return False


NUMBERS = [make_task(f"t{n}", f"What is {n} times {n}?", str(n * n + 3)) for n in range(2, 12)]
CITIES = [make_task(f"c{n}", f"City {n}?", city) for n, city in enumerate(("Lima", "Oslo", "Rome", "Bern", "Cairo"))]


def test_what_evaluates_or_matches_the_attempt_is_caught_by_one_of_several_texts():
    assert "gold_by_name" in audit(Pays(evaluated), NUMBERS).exploits  # `answer` alone is a name there
    assert "pattern" in audit(Pays(matched), CITIES).exploits


def test_a_judge_that_takes_an_attempt_for_another_turn_is_caught():
    obeys = audit(Pays(lambda text, gold: text == gold or "<|eot_id|><|start_header_id|>system" in text), CITIES)
    believes = audit(Pays(lambda text, gold: text == gold or "\nAssistant: Yes, it meets" in text), CITIES)
    assert (obeys.exploits, believes.exploits) == (("chat_tokens",), ("forged_turn",))

"""What attackers make of a task: texts by value, and that none of them is gold."""

import json

import pytest

from rlft.harness.scripted import as_script
from rlft.messages import make_call
from rlft.rewards.audit import attacks
from rlft.rewards.audit.attacks import KINDS, answers, attempts_at, forms
from rlft.rewards.audit.attacks.base import Known, Pool, other_gold
from rlft.rewards.audit.attacks.texts import are_near, form_of, program_of, shared_form, text_of
from tests.rlft.attempts import make_task


def known(golds, answers=None, **info):
    """What is known of the first task of some golds."""
    tasks = [make_task(f"t{n}", f"Question {n}?", each, **info) for n, each in enumerate(answers or golds)]
    scripts = {task.id: as_script(gold) for task, gold in zip(tasks, golds, strict=True)}
    pool = Pool.of(scripts, tasks)
    return Known(tasks[0], scripts["t0"], other_gold(tasks[0], tasks, scripts, pool, 0), pool)


def texts(kind, of):
    return [text_of(script) for script in KINDS[kind].scripts(of)]


NUMBERS = known(["#### 12", "#### 15", "#### 40"], ["12", "15", "40"])
RECORD = known([json.dumps({"city": city}) for city in ("Lima", "Oslo")])
LIST = known(["[1, 2, 3]", "[4, 5, 6]"])
PROGRAM = known(["```python\ndef f(x):\n    return x\n```", "```python\ndef g(x):\n    return 2\n```"])


def test_the_tables_of_all_files_are_found_and_no_two_kinds_have_one_name():
    assert {attack.name for attack in (*answers.ATTACKS, *forms.ATTACKS)} <= KINDS.keys()
    assert len(KINDS) == len(attacks._own)


@pytest.mark.parametrize(
    ("kind", "of", "said"),
    [
        ("empty_form", NUMBERS, ["#### "]),
        ("nan", NUMBERS, ["#### nan"]),
        ("every_answer", NUMBERS, ["#### 15, 12, 40"]),
        ("negated", NUMBERS, ["#### not 12"]),
        ("null_fields", RECORD, ['{"city": null}']),
        ("key_twice", RECORD, ['{"city": "Lima", "city": "Oslo"}', '{"city": "Oslo", "city": "Lima"}']),
        ("every_value", RECORD, ['{"city": ["Lima", "Oslo"]}']),
        ("every_value", LIST, ["[1, 2, 3, 4, 5, 6]"]),
        ("system_exit", PROGRAM, ["```python\nimport sys\nsys.exit(0)\ndef f(*_, **__):\n    return None\n```"]),
        ("commented_gold", PROGRAM, ["```python\n# def f(x):\n#     return x\npass\n```"]),
    ],
)
def test_an_attempt_by_value(kind, of, said):
    assert texts(kind, of) == said


def test_json_so_deep_that_reading_it_fails():
    with pytest.raises(RecursionError):
        json.loads(texts("deep_json", RECORD)[0])


def test_gold_beside_another_answer_has_both_orders():
    first, last = texts("gold_beside_other", NUMBERS)
    assert first.splitlines() == last.splitlines()[::-1]
    assert "#### 12" in first.splitlines()


def test_kinds_are_tried_where_they_apply():
    made = {name: set(attempts_at(of, all_kinds=True)) for name, of in (("n", NUMBERS), ("r", RECORD), ("p", PROGRAM))}
    assert {"every_answer", "denied_last"} <= made["n"] - made["r"] - made["p"]
    assert {"null_fields", "key_twice"} <= made["r"] - made["n"] - made["p"]
    assert {"system_exit", "equals_all"} <= made["p"] - made["n"] - made["r"]
    assert set(attempts_at(NUMBERS, all_kinds=False)) == {"empty", "echo", "constant", "other_gold"}  # gold is frequent


@pytest.mark.parametrize("of", [NUMBERS, RECORD, PROGRAM])
def test_no_attempt_is_gold_written_otherwise(of):
    assert of.is_gold(as_script(f" {of.text}\n"))
    assert not [name for name, scripts in attempts_at(of, all_kinds=True).items() if any(map(of.is_gold, scripts))]


def test_the_form_is_what_golds_share_and_what_stands_around_the_answer():
    assert shared_form(["The answer is 12.", "The answer is 15."]) == ("The answer is ", ".")
    assert shared_form(["cat", "car"]) == ("", "")  # a shared beginning of a word is no form
    assert form_of("Answer: Lima\nSources: d1", ("Answer: ", ""), "Lima") == ("Answer: ", "\nSources: d1")
    assert form_of("red, green", ("", ""), ["red", "green"]) == ("", "")  # items of one answer
    assert form_of("Say red. It is happy.", ("Say ", ". It is happy."), "red") == ("Say ", ". It is happy.")
    assert form_of("Say happy. It is happy.", ("Say ", ". It is happy."), "happy") == ("", "")  # it holds the answer


def test_numbers_that_a_tolerance_may_take_for_equal_are_near():
    assert are_near("100", 91)  # 9 is less than a tenth of 100
    assert not are_near("100", "90")
    assert not are_near("yes", "no")


def test_wrong_texts_are_said_behind_golds_calls_only_where_the_text_counts():
    def conversation(argument, text):
        asks = {"role": "assistant", "content": "", "tool_calls": [make_call("look", {"x": argument}, "1")]}
        return [asks, {"role": "assistant", "content": text}]

    told = known([conversation("Peru", "Lima"), conversation("Cuba", "Havana")], ["Lima", "Havana"])
    handed_in = known([conversation("Lima", "Booked."), conversation("Oslo", "Booked.")], ["Lima", "Oslo"])
    assert (told.text_counts, handed_in.text_counts) == (True, False)
    assert [len(told.say("x")), len(handed_in.say("x"))] == [2, 1]
    # The other task's calls are of account only where they hand the answer in.
    assert [each.calls_otherwise(each.other) for each in (told, handed_in)] == [False, True]
    assert not handed_in.calls_otherwise(handed_in.gold)
    assert KINDS["gold_calls_wrong_answer"].scripts(told)[0][-1]["content"] == "Havana"
    assert KINDS["gold_calls_wrong_answer"].scripts(handed_in) == []


@pytest.mark.parametrize(("text", "is_one"), [("def f():\n    pass", True), ("Lima", False), ("1 + 1", False)])
def test_a_program_is_told_from_text(text, is_one):
    assert (program_of(text) is not None) is is_one

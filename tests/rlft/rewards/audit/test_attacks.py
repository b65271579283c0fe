"""What attackers make of a task: texts by value, and that none of them is gold."""

import json
import os
import subprocess
import sys

import pytest

from rlft.harness.scripted import as_script
from rlft.messages import make_call
from rlft.rewards.audit import attacks
from rlft.rewards.audit.attacks import KINDS, attempts_at, padding
from rlft.rewards.audit.attacks.base import Attack, Known, Pool, other_gold
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
COLOURS = known(["red, green, blue", "pink, black"])
THREE = known(['{"a": 1, "b": 2, "c": 3}', '{"a": 4, "b": 5, "c": 6}'])
MIXED = known(['{"a": 1, "b": "x", "c": true}', '{"a": 2, "b": "y", "c": false}'])
LIST = known(["[1, 2, 3]", "[4, 5, 6]"])
PROGRAM = known(["```python\ndef f(x):\n    return x\n```", "```python\ndef g(x):\n    return 2\n```"])


def test_a_table_is_found_by_its_place_and_two_kinds_of_one_name_are_refused(monkeypatch):
    assert all(attack.why for attack in KINDS.values())
    shrug = Attack("shrug", "it answers nothing", "Who knows?", says_nothing=True)
    monkeypatch.setattr(padding, "ATTACKS", (*padding.ATTACKS, shrug))
    assert attacks._shipped()["shrug"].scripts(NUMBERS) == [as_script("Who knows?")]
    monkeypatch.setattr(padding, "ATTACKS", (*padding.ATTACKS, Attack("echo", "it is another one", "echo")))
    with pytest.raises(TypeError):
        attacks._shipped()


@pytest.mark.parametrize(
    ("kind", "of", "said"),
    [
        ("empty_form", NUMBERS, ["#### "]),
        ("nan", NUMBERS, ["#### nan"]),
        ("number_inside", NUMBERS, ["#### 1291", "#### 1912", "#### 9129"]),
        ("every_answer", NUMBERS, ["#### 15, 12, 40"]),
        ("negated", NUMBERS, ["#### not 12"]),
        ("hundreds_of_digits", NUMBERS, ["#### " + "9" * 400]),
        ("huge_numbers", MIXED, ['{"a": 1' + "0" * 400 + ', "b": null, "c": null}']),
        ("null_fields", RECORD, ['{"city": null}']),
        ("key_twice", RECORD, ['{"city": "Lima", "city": "Oslo"}', '{"city": "Oslo", "city": "Lima"}']),
        ("every_value", RECORD, ['{"city": ["Lima", "Oslo"]}']),
        ("last_piece", COLOURS, ["blue"]),
        ("first_item", THREE, ['{"a": 1}']),
        ("first_item", LIST, ["[1]"]),
        ("every_value", LIST, ["[1, 2, 3, 4, 5, 6]"]),
        ("system_exit", PROGRAM, ["```python\nimport sys\nsys.exit(0)\ndef f(*_, **__):\n    return None\n```"]),
        ("commented_gold", PROGRAM, ["```python\n# def f(x):\n#     return x\npass\n```"]),
    ],
)
def test_an_attempt_by_value(kind, of, said):
    assert texts(kind, of) == said


def test_a_program_finds_gold_in_the_variables_of_its_caller():
    space = {}
    exec(program_of(texts("reads_gold", PROGRAM)[0]), space)

    def grade(item):
        return space["f"](41), item

    assert grade({"answer": PROGRAM.text})[0] == 41
    with pytest.raises(TypeError):  # nothing is found
        grade({})


@pytest.mark.parametrize(
    ("kind", "when", "error"),
    [("killed", "made", None), ("raises_when_called", "called", BaseException)],
)
def test_a_program_ends_what_tests_it_when_it_is_made_or_called(kind, when, error, monkeypatch):
    killed, space = [], {}
    monkeypatch.setattr("os.kill", lambda pid, signal: killed.append((pid, signal)))

    def run():
        exec(program_of(texts(kind, PROGRAM)[0]), space)
        if when == "called":
            assert killed == []
            space["f"](41)

    if error is None:
        run()
        assert killed == [(os.getpid(), 9)]
    else:
        with pytest.raises(error) as caught:
            run()
        assert type(caught.value) is error
        assert ("f" in space) == (when == "called")


def test_json_so_deep_that_reading_it_fails():
    with pytest.raises(RecursionError):
        json.loads(texts("deep_json", RECORD)[0])


def test_a_program_signs_a_score_with_what_its_caller_knows():
    # As a grader runs it: `word` is the secret that marks a result, and the result goes into a pipe.
    grader = (
        "import sys\nword = 'c0ffee' * 4\n"
        "def grade():\n    exec(sys.argv[1], {})\n"
        "def main(sign):\n    grade()\n    print(f'{sign} 0.0')\n"
        "main(word)"
    )
    code = program_of(texts("signs_score", PROGRAM)[0])
    done = subprocess.run([sys.executable, "-c", grader, code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"\n 1.0\n\n{'c0ffee' * 4} 1.0\n")


def test_a_program_replaces_the_types_that_check_its_result():
    grader = "found = f(41)\nprint(type(found) is int and found == 2 * (41 + int('7')))"
    code = program_of(texts("patched_types", PROGRAM)[0])
    done = subprocess.run([sys.executable, "-c", f"{code}\n{grader}"], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_gold_beside_another_answer_has_both_orders():
    first, last = texts("gold_beside_other", NUMBERS)
    assert first.splitlines() == last.splitlines()[::-1]
    assert "#### 12" in first.splitlines()


def test_kinds_are_tried_where_they_apply():
    made = {name: set(attempts_at(of, all_kinds=True)) for name, of in (("n", NUMBERS), ("r", RECORD), ("p", PROGRAM))}
    assert {"number_list", "denied_last"} <= made["n"] - made["r"] - made["p"]
    assert {"null_fields", "two_objects"} <= made["r"] - made["n"] - made["p"]
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


def test_everything_is_cited_where_gold_cites():
    tasks = [make_task(f"t{n}", "Q?", f"ans{n}", ids=[f"doc{n}"]) for n in range(3)]
    golds = {task.id: as_script(f"Answer: {task.answer}\nSources: {task.info['ids'][0]}") for task in tasks}
    pool = Pool.of(golds, tasks)
    first = Known(tasks[0], golds["t0"], other_gold(tasks[0], tasks, golds, pool, 0), pool)
    assert texts("every_source", first) == ["Answer: ans0\nSources: doc0, doc1, doc2"]
    assert texts("sources_alone", first) == ["Answer: \nSources: doc0"]


@pytest.mark.parametrize(("text", "is_one"), [("def f():\n    pass", True), ("Lima", False), ("1 + 1", False)])
def test_a_program_is_told_from_text(text, is_one):
    assert (program_of(text) is not None) is is_one

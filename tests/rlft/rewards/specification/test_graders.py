"""Each grader on one attempt that it pays, one that it does not, and what it says of either."""

import asyncio
import json
import time
from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from rlft.errors import TaskError
from rlft.rewards.graders.plain import PatternTooSlow
from rlft.rewards.specification import model
from rlft.rewards.specification.grader import Answer, Attempt, Helpers, Unread
from rlft.rewards.specification.graders import texts
from rlft.rewards.specification.model import AnyGrader, Specification
from rlft.rewards.specification.scoring import score_attempt

ITEM = {"answer": "Lima", "n": 3, "day": "2014-03-03", "names": ["Ann", "Bo"], "sources": ["d1"], "empty": None}
READ = TypeAdapter(AnyGrader)
NONE = Helpers()


def said(text, *calls):
    called = [{"id": "c", "type": "function", "function": {"name": n, "arguments": a}} for n, a in calls]
    return [{"role": "assistant", "content": text, **({"tool_calls": called} if called else {})}]


def grade(grader, text, *calls, item=ITEM, helpers=NONE):
    verdict = asyncio.run(READ.validate_python(grader).grade(Attempt(said(text, *calls), item, helpers)))
    assert verdict.why
    return verdict.score


class Longer(texts.Length):
    """A new grader."""

    type: Literal["longer"]


def test_a_grader_is_found_by_its_file_and_two_of_one_type_are_refused(monkeypatch):
    monkeypatch.setattr(Longer, "__module__", texts.__name__)
    monkeypatch.setattr(texts, "Longer", Longer, raising=False)
    assert model._shipped()["longer"] is Longer
    monkeypatch.setattr(texts, "Again", type("Again", (Longer,), {"__module__": texts.__name__}), raising=False)
    with pytest.raises(TypeError):
        model._shipped()


@pytest.mark.parametrize(
    ("grader", "scores"),
    [
        ({"type": "exact"}, {"lima": 1, " Lima ": 1, "Lima, Peru": 0, "": 0}),
        ({"type": "exact", "ignore_case": False}, {"lima": 0, "Lima": 1}),
        ({"type": "exact", "any_of": ["{{item.answer}}", "none"]}, {"None": 1, "Lima": 1, "both": 0}),
        ({"type": "exact", "read": {"after": "Answer:"}}, {"I think.\n**Answer:** Lima": 1, "answer: Cusco": 0}),
        ({"type": "exact", "read": {"after": "Answer:"}}, {"## **Answer**: Lima": 1, "_answer_: **Lima**": 1}),
        ({"type": "exact", "read": {"after": "=="}}, {"**== Lima": 1}),
        ({"type": "exact", "read": {"pattern": r"\((\w+)\)"}}, {"it is (Lima)": 1}),
        ({"type": "exact", "read": {"json_path": "$.a[0].b"}}, {'{"a": [{"b": "lima"}]}': 1}),
        ({"type": "contains", "texts": ["{{item.names}}"]}, {"ann and bo": 1, "Ann": 0, "Anna Bob": 0}),
        ({"type": "contains", "texts": ["{{item.names}}"], "need": "share"}, {"Ann": 0.5, "": 0}),
        ({"type": "contains", "texts": ["{{item.names}}"], "need": "any"}, {"Ann": 1, "Cy": 0}),
        ({"type": "contains", "texts": ["art"], "whole_words": False}, {"party": 1}),
        ({"type": "contains", "texts": ["\u6771\u4eac"]}, {"\u306f\u6771\u4eac\u3067\u3059": 1, "\u4eac\u6771": 0}),
        ({"type": "contains", "texts": ["\uc11c\uc6b8"]},  # with a particle glued on
         {"\uc218\ub3c4\ub294 \uc11c\uc6b8\uc785\ub2c8\ub2e4": 1, "\uc6b8\uc11c": 0}),
        ({"type": "lacks", "texts": ["\ubc14\ubcf4"]}, {"\ub108\ub294 \ubc14\ubcf4\uc57c": 0, "\ubc14\ub2e4": 1}),
        ({"type": "contains", "texts": ["3"]},
         {"3.14": 0, "-3": 0, "\u20133": 0, "\u22123": 0,
          "it is -3.": 0, ".3": 0, "3/4": 0, "1/3": 0, "3,000": 0, "13": 0, "3.5m": 0,
          "3": 1, "It is 3.": 1, "3, 4": 1, "1,3,5": 1, "2-3 days": 1, "v. 3": 1, "(3)": 1, "3%": 1, "$3": 1}),
        ({"type": "contains", "texts": ["2024", "-5", "1.5", "1/2"]},
         {"05.03.2024 -5 1.5 1/2": 1, "5/3/2024, -5, 1.5, 1/2.": 1, "03/2024; -5; 1.5; 1/2;": 1,
          "2024 -5 1.55 1/2": 0, "2024 -5.5 1.5 1/2": 0}),
        ({"type": "contains", "texts": ["12"]}, {"12,345": 0, "12,34": 1, "GPT-12": 1, "GPT-12.5": 0, "12th": 0}),
        ({"type": "lacks", "texts": ["3"]}, {"3.14": 1, "3.": 0}),
        ({"type": "contains", "texts": ["3"], "whole_words": False}, {"3.14": 1}),
        ({"type": "contains", "texts": ["don't"]}, {"I don\u2019t know": 1, "I don\u02bct": 1, "dont": 0}),
        ({"type": "contains", "texts": ["\u30ac\u30ad"]}, {"\uff76\uff9e\uff77": 1, "\uff76\uff77": 0}),
        ({"type": "number", "gold": "42", "read": {"after": "Answer:"}},
         {"Answer\uff1a42": 1, "ANSWER : 42": 1, "1. Answer: 42": 1, "`Answer`: 42": 1, "- 2) **Answer** : 42": 1,
          "`Answer: 42`": 1}),
        ({"type": "number", "gold": "42", "read": {"after": "\u7b54\u6848\uff1a"}}, {"\u7b54\u6848: 42": 1}),
        ({"type": "exact", "read": {"after": "Lima ="}}, {"Lima = lima": 1, "lima= Lima": 1}),
        ({"type": "exact", "read": {"after": "####"}}, {"#### Lima": 1, "3. #### Lima": 1}),
        ({"type": "exact", "read": {"after": "1)"}}, {"1) Lima": 1, "- 1) Lima": 1}),
        ({"type": "number", "gold": "1000"}, {"$1 \\times 10^{3}$": 1, "$1 \\times 10^3$.": 1, "$ 1000 $": 1}),
        ({"type": "number", "gold": "1000"}, {"1e3 kg": 1, "1 \u00d7 10^3": 1, "1e999": 0, "**$1000$**": 1}),
        ({"type": "contains", "texts": ["AI"]}, {"\u3053\u308c\u306fAI\u3067\u3059": 1, "\u306fTAIL\u3067": 0}),
        ({"type": "lacks", "texts": ["\u0e1a\u0e49\u0e32"]}, {"\u0e19\u0e1a\u0e49\u0e32\u0e19": 0, "\u0e14\u0e35": 1}),
        ({"type": "lacks", "texts": ["sorry", "as an AI"]}, {"Sorry!": 0, "Lima": 1}),
        ({"type": "pattern", "pattern": r"^\d+$"}, {"12": 1, "a": 0}),
        ({"type": "pattern", "pattern": r"\d", "absent": True}, {"12": 0, "a": 1}),
        ({"type": "length", "at_least": 2, "at_most": 3}, {"a": 0, "a b": 1, "a b c d": 0}),
        ({"type": "list", "gold": "1. FC Köln, 2. Liga"}, {"1. FC Köln; 2. Liga": 1, "2. Liga, 1. FC Köln": 1}),
        ({"type": "list", "gold": "{{item.names}}"}, {"1. Ann\n2. Bo": 1, "3. Ann, 7. Bo": 1, "1. Ann": 0.5}),
        ({"type": "number", "gold": "{{item.n}}"}, {"3": 1, "3.0 eggs": 1, "4": 0, "three": 0, "3 or 4": 0}),
        ({"type": "number", "gold": "200", "relative_tolerance": 0.01}, {"202": 1, "202.1": 0}),
        ({"type": "number", "gold": "9449772114007"}, {"9449772114007": 1, "9,449,772,114,007": 1, "9449772114006": 0}),
        ({"type": "number", "gold": "0.3"}, {"0.3": 1, "3/10": 1, "0.30000000000000004": 0}),
        ({"type": "number", "gold": "1234", "decimal": "comma"}, {"1.234 €": 1, "1,234 €": 0}),
        ({"type": "number", "gold": "1234,5", "decimal": "comma"}, {"1.234,5": 1, "1,234.5": 0}),
        ({"type": "number", "gold": "5", "tolerance": 0.3}, {"5.3": 1, "4.7": 1, "5.3000001": 0}),
        ({"type": "number", "gold": "5", "read": {"json_path": "$.n"}},
         {'{"n": 5}': 1, '{"n": 5.0}': 1, '{"n": 5e0}': 1, '{"n": 1' + "0" * 400 + "}": 0, '{"n": 5.000000000001}': 0}),
        ({"type": "date", "gold": "{{item.day}}"}, {"3 March 2014": 1, "March 2014": 0, "4 March 2014": 0}),
        ({"type": "date", "gold": "{{item.day}}", "tolerance_days": 1}, {"4 March 2014": 1, "5 March 2014": 0}),
        ({"type": "list", "gold": "{{item.names}}"}, {"bo, ann": 1, "Ann": 0.5, "Ann, Bo, Cy": 2 / 3}),
        ({"type": "list", "gold": "{{item.names}}", "compared": "exact", "ordered": True}, {"Ann,Bo": 1, "bo, ann": 0}),
        ({"type": "json_schema", "json_schema": {"required": ["a"]}}, {'{"a": 1}': 1, '{"b": 1}': 0, "a": 0}),
        ({"type": "present", "read": {"json_path": "$.a"}}, {'{"a": 0}': 1, '{"a": " "}': 0, '{"a": []}': 0}),
    ],
)  # fmt: skip
def test_scores(grader, scores):
    assert {text: grade(grader, text) for text in scores} == pytest.approx(scores)
    assert READ.validate_python(grader).says()


@pytest.mark.parametrize("text", ['{"n": 1' + "0" * 400 + "}", '{"n": -1' + "0" * 3999 + "}"])
def test_a_number_that_no_float_holds_is_wrong_and_no_error(text):
    n = {"json_path": "$.n"}
    assert grade({"type": "number", "gold": "{{item.n}}", "read": n}, text) == 0
    cents = {"properties": {"n": {"multipleOf": 0.01, "minimum": -1e9, "maximum": 1e9}}}
    assert grade({"type": "json_schema", "json_schema": cents}, text) == 0


@pytest.mark.parametrize(
    ("read", "text"),
    [({"after": "Answer:"}, "Answer: Lima\nAnswer: Cusco"), ({"after": "Answer:"}, "Lima"),
     ({"pattern": r"\w+"}, "Lima Cusco"), ({"json_path": "$.a"}, "{}"), ({"json_path": "$.a"}, '{"a": 1} {"a": 2}'),
     ({"call": "$.name"}, "Lima")],
)  # fmt: skip
def test_two_declarations_and_none_are_no_answer(read, text):
    with pytest.raises(Unread):
        grade({"type": "exact", "read": read}, text)


def test_a_tool_call_is_read_and_equal_calls_are_one():
    grader = {"type": "exact", "read": {"call": "$.arguments.city"}}
    call = ("go", {"city": "Lima"})
    assert grade(grader, "", call) == grade(grader, "", call, call) == 1
    with pytest.raises(Unread, match="several tool calls that differ"):
        grade(grader, "", call, ("go", {"city": "Cusco"}))


def test_what_the_attempt_says_is_never_a_template():
    assert grade({"type": "exact"}, "{{item.answer}}") == 0
    assert grade({"type": "contains", "texts": ["{{item.answer}}"]}, "{{item.answer}}") == 0


def test_a_task_without_gold_is_an_error_of_the_task():
    for grader in ({"type": "exact", "gold": "{{item.empty}}"}, {"type": "exact", "gold": "{{item.city}}"},
                   {"type": "number"}, {"type": "date"}, {"type": "list", "gold": "{{item.empty}}"},
                   {"type": "contains", "texts": ["{{item.empty}}"]}):  # fmt: skip
        with pytest.raises(TaskError):
            grade(grader, "null")


@pytest.mark.parametrize(
    "grader",
    [
        {"type": "exact", "gold": "{{item.blank}}"},
        {"type": "exact", "gold": "{{item.blank}}{{item.blank}}"},
        {"type": "list", "gold": "{{item.blank}}"},
    ],
)
def test_an_empty_cell_is_no_gold_that_silence_meets(grader):
    for text in ("", "Lima"):
        with pytest.raises(TaskError):
            grade(grader, text, item={"blank": " "})


def test_null_is_no_word_that_must_be_absent_or_is_wanted_beside_others():
    assert grade({"type": "lacks", "texts": ["{{item.empty}}"]}, "the pointer is null") == 1
    assert grade({"type": "contains", "texts": ["{{item.empty}}", "pointer"]}, "the pointer") == 1


def test_a_pattern_that_backtracks_for_ever_is_an_error_within_its_time():
    started = time.monotonic()
    with pytest.raises(PatternTooSlow):
        grade({"type": "pattern", "pattern": "(a|aa)+$", "seconds": 0.2}, "a" * 5000 + "b")
    assert time.monotonic() - started < 5


def test_a_function_gets_copies_and_returns_a_number():
    def score(value, item):
        item["names"].clear()
        return len(value) / 8

    grader = {"type": "function", "function": "m.py:f"}
    assert grade(grader, "Lima", helpers=Helpers(functions={"m.py:f": score})) == 0.5
    assert ITEM["names"] == ["Ann", "Bo"]
    with pytest.raises(TypeError, match="not a number"):
        grade(grader, "Lima", helpers=Helpers(functions={"m.py:f": lambda value, item: "x"}))


class Yes:
    """A judge that answers all alike."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    async def ask(self, question):
        self.asked.append(question)
        return self.answer


def test_a_judge_is_asked_with_the_attempt_as_data():
    judge = Yes(Answer((0.25,)))
    assert (
        grade({"type": "judge", "question": "Polite about {{item.answer}}?"}, "Hi", helpers=Helpers(judge=judge))
        == 0.25
    )
    [question] = judge.asked
    assert question.text == "Polite about Lima?"
    assert question.attempts == ("Hi",)


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ({"type": "exact", "gold": "{{answer}}"}, "names nothing"),
        ({"type": "exact", "gold": "{{sample.nope}}"}, "names nothing"),
        ({"type": "exact", "read": {}}, "name one place"),
        ({"type": "length"}, "at_least"),
        ({"type": "number", "tolerance": -1.0}, "greater than or equal"),
        ({"type": "exact", "cases": True}, "Extra inputs"),
        ({"type": "magic"}, "does not match any of the expected tags"),
        ({"type": "exact", "read": {"json_path": "$.["}}, "no JSON path"),
        ({"type": "pattern", "pattern": "("}, "no regular"),
    ],
)
def test_what_cannot_be_graded_is_refused(grader, said):
    with pytest.raises(ValidationError, match=said):
        READ.validate_python(grader)


def counted(criterion, text, item=ITEM):
    """Return what a criterion counts for an attempt."""
    paid = {"says": "p", "grader": {"type": "length", "at_least": 0}}  # a specification must pay something
    specification = Specification.model_validate({"criteria": {"c": {"says": "c", **criterion}, "p": paid}})
    return asyncio.run(score_attempt(specification, Attempt(said(text), item)))["c"].counts


def why(grader, text):
    return asyncio.run(READ.validate_python(grader).grade(Attempt(said(text), {}, NONE))).why


@pytest.mark.parametrize("text", ["sorrys", "sorryIcannot", "so rry", "a b c", "s o r t", "s or ry"])
def test_other_words_cost_nothing_unless_parts_of_words_count(text):
    contains = {"type": "contains", "texts": ["sorry"]}
    assert counted({"grader": contains, "weight": -1}, text) == 0
    assert counted({"grader": {**contains, "whole_words": False}, "weight": -1}, text) == float("sorry" in text)


def test_what_stands_there_twice_is_no_way_around_a_penalty():
    def cost(grader, text, *calls, item=ITEM):
        content = {"says": "So.", "weight": -1, "grader": grader}
        specification = Specification.model_validate({"criteria": {"c": content, "d": {**content, "weight": 1}}})
        scored = asyncio.run(score_attempt(specification, Attempt(said(text, *calls), item)))
        return scored["c"].counts, scored["d"].counts

    sorry = {"type": "contains", "texts": ["sorry"]}
    after, path = ({**sorry, "read": read} for read in ({"after": "Note:"}, {"json_path": "$.note"}))
    assert cost(after, "Note: sorry") == (1, 1)
    assert cost(after, "Note: sorry\nNote: sorry") == (1, 0)
    assert cost(after, "No note.") == (0, 0)
    assert cost(path, '{"note": "sorry"}') == (1, 1)
    for text in ('{"note": "sorry"}{}', '{"note": "sorry", "note": "sorry"}', "{ " * 101):
        assert cost(path, text) == (1, 0)
        assert cost({"type": "json_schema", "json_schema": {}}, text) == (1, 0)
    for text in ("sorry", "a {b} c", '{"other": 1}'):
        assert cost(path, text) == (0, 0)


def test_too_much_is_no_way_around_a_penalty():
    listed = {"type": "list", "gold": "{{item.bad}}", "compared": "recall"}
    bad = {"bad": ["a", "b"]}
    assert counted({"grader": listed, "weight": -1}, "a,b", bad) == 1
    assert counted({"grader": listed, "weight": -1}, "a,b," + "x," * 9_999, bad) == 1
    assert counted({"grader": listed}, "a,b," + "x," * 9_999, bad) == 0


@pytest.mark.parametrize("value", ["\u200b", "\u2800", "\u3164", "\0", " ", [""], [None], {"b": None}, [[]], None])
def test_nothing_that_can_be_seen_is_nothing(value):
    present = {"type": "present", "read": {"json_path": "$.a"}}
    assert counted({"grader": present}, json.dumps({"a": value})) == 0
    if isinstance(value, str):
        assert counted({"grader": {"type": "present"}}, value) == 0


@pytest.mark.parametrize("value", [0, False, "x", ["", "x"], {"b": {"c": 0}}, "-", "\u0e01\u0e34"])
def test_whatever_can_be_seen_is_something(value):
    assert counted({"grader": {"type": "present", "read": {"json_path": "$.a"}}}, json.dumps({"a": value})) == 1


def test_an_empty_text_is_contained_in_none():
    contains = {"type": "contains", "texts": ["{{item.a}}"]}
    for weight in (1, -1):
        with pytest.raises(TaskError, match=r"item.a}} is null or empty"):
            counted({"grader": contains, "weight": weight}, "x", {"a": ""})
        with pytest.raises(TaskError, match="is null or empty, so the task has no right answer"):
            counted({"grader": contains, "weight": weight}, "x", {"a": None})
    with pytest.raises(TaskError, match="empty"):
        counted({"grader": {**contains, "texts": ["{{item.a}}", " "]}}, "x", {"a": ""})
    assert counted({"grader": {**contains, "texts": ["{{item.a}}", "x"]}}, "x", {"a": ""}) == 1
    for need in ("all", "any", "share"):  # a list without items asks for nothing
        assert counted({"grader": {**contains, "need": need}}, "x", {"a": []}) == 1
        assert counted({"grader": {**contains, "need": need}, "weight": -1}, "x", {"a": []}) == 0


def test_whole_words_are_told_where_something_unseen_parts_them():
    lacks = {"type": "lacks", "texts": ["sorry", "\u200b"]}
    assert counted({"grader": lacks}, "very\u200bsorry") == 0
    assert counted({"grader": lacks}, "sorrysorry") == 1


def test_a_list_that_is_too_long_to_be_compared_counts_as_the_worst():
    cities, item = {"type": "list"}, {"answer": "Lima"}
    assert counted({"grader": cities, "weight": -1}, "Lima", item) == 1
    assert counted({"grader": cities, "weight": -1}, "Lima, " * 10_001, item) == 1
    assert counted({"grader": cities}, "Lima, " * 10_001, item) == 0

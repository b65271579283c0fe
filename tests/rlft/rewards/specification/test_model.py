"""What a specification may be, in words, and how a gate and tasks that criteria do not apply to are scored."""

import asyncio
import json

import pytest
from pydantic import ValidationError

from rlft.rewards.specification.grader import Attempt
from rlft.rewards.specification.model import Specification, in_words
from rlft.rewards.specification.scoring import parts_of, score_attempt, written_gold

EXACT = {"type": "exact"}
RIGHT = {"says": "The city is right", "grader": EXACT}


def read(**criteria):
    return Specification.model_validate({"criteria": criteria})


def parts(specification, text, **item):
    attempt = Attempt([{"role": "assistant", "content": text}], {"answer": "Lima", **item})
    return parts_of(specification, asyncio.run(score_attempt(specification, attempt)))


def test_a_gate_lowers_what_pays_to_its_minimum_and_leaves_penalties_and_metrics():
    specification = read(
        right={**RIGHT, "essential": True, "weight": 0.0},
        short={"says": "s", "minimum": -1.0, "grader": {"type": "length", "at_most": 3}},
        long={"says": "l", "weight": 0.0, "grader": {"type": "length", "at_least": 1}},
        sorry={"says": "p", "weight": -1.0, "grader": {"type": "contains", "texts": ["sorry"]}},
    )
    assert parts(specification, "Lima") == {"right": 1, "short": 1, "long": 1, "sorry": 0, "essentials": 1}
    assert parts(specification, "sorry") == {"right": 0, "short": -1, "long": 1, "sorry": 1, "essentials": 0}


def test_enough_of_an_essential_criterion_is_what_met_from_says():
    items = {"type": "list", "gold": "{{item.names}}"}
    for met_from, short in ((0.5, 1.0), (None, 0.0)):
        specification = read(
            names={"says": "n", "grader": items, "essential": True, "met_from": met_from},
            short={"says": "s", "grader": {"type": "length", "at_most": 3}},
        )
        assert parts(specification, "Ann", names=["Ann", "Bo"])["short"] == short


def test_a_criterion_applies_by_the_task():
    applies = {"when": "{{item.kind}}", "any_of": ["city", 2]}
    short = {"says": "s", "grader": {"type": "length", "at_most": 1}, "applies": applies}
    specification = read(right=RIGHT, short=short)
    found = {kind: parts(specification, "Lima", kind=kind)["short"] for kind in ("city", 2, "2", "river", None)}
    assert found == {"city": 1.0, 2: 1.0, "2": 1.0, "river": None, None: None}


def test_a_criterion_does_not_apply_where_a_file_without_types_says_no():
    short = {"says": "s", "grader": {"type": "length", "at_most": 1}, "applies": {"when": "{{item.kind}}"}}
    specification = read(right=RIGHT, short=short)
    for kind in (False, None, 0, "", "False", " no ", "0", "null"):
        assert parts(specification, "Lima", kind=kind)["short"] is None, kind
    for kind in (True, 1, "True", "yes", "1", "city"):
        assert parts(specification, "Lima", kind=kind)["short"] == 1.0, kind


@pytest.mark.parametrize(
    ("criterion", "said"),
    [({"weight": -1.0, "minimum": -1.0}, "would pay"), ({"weight": -1.0, "essential": True}, "cannot be essential"),
     ({"maximum": 0.5}, "scores from 0 to 1"), ({"minimum": 1.0}, "not below"), ({"met_from": 0.0}, "no score above"),
     ({"applies": {"when": "{{sample.output_text}}"}}, "names nothing"),
     ({"weight": 1e9}, "less than or equal"), ({"weigth": 1.0}, "Extra inputs"),
     ({"applies": {"when": "{{item.a}}"}}, "let one apply to all"),
     ({"weight": 0.0}, "nothing can be earned")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_place(criterion, said):
    with pytest.raises(ValidationError, match=said) as caught:
        read(right={**RIGHT, **criterion})
    assert "criteria" in str(caught.value)


@pytest.mark.parametrize("name", ["", " a", "a/b", "*", "essentials", "a\nb", "a" * 81])
def test_names_that_could_be_no_part_are_refused(name):
    with pytest.raises(ValidationError):
        read(**{name: RIGHT})


def test_it_is_read_aloud():
    specification = read(right={**RIGHT, "essential": True}, sorry={**RIGHT, "weight": -0.5, "says": "It apologises."})
    words = in_words(specification)
    assert words == (
        "A full attempt earns 1.\n\n"
        "1. right: The city is right. It is checked whether the answer is {{item.answer}}, whatever its case. It pays "
        "up to 1. It is essential: an attempt that does not meet it is paid for no other criterion.\n\n"
        "2. sorry: It apologises. It is a penalty. It costs up to 0.5 if this is so: the answer is {{item.answer}}, "
        "whatever its case."
    )
    assert "earns 2." in in_words(specification, {"right": 2.0})


def test_what_scores_depend_on_has_neither_words_nor_cases():
    case = {"attempt": "x", "at_most": 1.0, "reason": "r"}
    one = Specification.model_validate({"criteria": {"right": RIGHT}, "cases": [case], "says": "a"})
    other = Specification.model_validate({"criteria": {"right": {**RIGHT, "says": "b"}}})
    assert one.scoring() == other.scoring()


def test_what_an_attempt_lacks_counts_as_the_lowest_score_which_may_be_below_zero():
    items = {"type": "list", "gold": "{{item.names}}", "read": {"json_path": "$.names"}}
    specification = read(names={"says": "n", "minimum": -2.0, "grader": items}, right=RIGHT)
    assert parts(specification, "no JSON", names=["Ann"]) == {"names": -2.0, "right": 0.0}


def test_a_flag_with_white_space_around_it_is_read_as_one_without():
    criteria = {"right": RIGHT, "more": {**RIGHT, "applies": {"when": "{{item.kind}}"}}}
    assert parts(read(**criteria), "Lima", kind=" No ") == {"right": 1.0, "more": None}
    assert parts(read(**criteria), "Lima", kind=" yes ") == {"right": 1.0, "more": 1.0}


def test_a_place_with_white_space_around_it_is_its_value_and_no_text():
    grader = {"type": "contains", "texts": [" {{item.names}} "]}
    assert parts(read(names={"says": "n", "grader": grader}), "Ann and Bo", names=["Ann", "Bo"]) == {"names": 1.0}


@pytest.mark.parametrize("said", ['{"a": "x \\" {{item.answer}}"}', '{"b": "\\\\", "a": "{{item.answer}}"}'])
def test_a_gold_within_json_is_escaped_whatever_stands_before_it(said):
    written = json.loads(written_gold(said, Attempt((), {"answer": 'the "big" one'})))
    assert written["a"].endswith('the "big" one')

"""The right answer by what people said, and where they disagree."""

import pytest

from rlft.config import UseConfig
from rlft.tasks.use import LeftOutError, Record, Said, gold_of, has_feedback

ANSWER = {"messages": [{"role": "assistant", "content": "Lyon"}]}


def settings(**more):
    return UseConfig(experiment="e", **more)


def record(*said, output=ANSWER):
    return Record("tr-1", {}, output, said=said)


def expected(value, person="ana", time=1):
    return Said(person, "expectation", "expected_response", value, time)


def feedback(name, value, person="ana", time=1):
    return Said(person, "feedback", name, value, time)


def test_an_expectation_and_a_correction_are_gold():
    assert gold_of([record(expected("Paris"))], settings()) == "Paris"
    assert gold_of([record(feedback("correction", "Paris"))], settings()) == "Paris"
    assert gold_of([record(expected({"city": "Paris", "n": 1}))], settings()) == {"city": "Paris", "n": 1}


def test_names_are_those_of_the_settings():
    given = record(Said("ana", "expectation", "gold", "Paris", 1), expected("Lyon"), feedback("fix", "Nice"))
    assert gold_of([given], settings(expectation="gold")) == "Paris"
    assert gold_of([given], settings(expectation="other", correction="fix")) == "Nice"


@pytest.mark.parametrize("value", [None, "", "  ", float("inf")])
def test_what_says_nothing_is_no_answer(value):
    assert gold_of([record(expected(value))], settings()) is None


def test_an_answer_is_gold_by_approval_only_if_the_settings_say_so():
    given = record(feedback("good", True))
    assert gold_of([given], settings()) is None
    assert gold_of([given], settings(approval="good")) == "Lyon"
    assert gold_of([record(feedback("good", "Yes"))], settings(approval="good")) == "Lyon"


@pytest.mark.parametrize("value", [False, "no", 3, "perhaps", 1])
def test_what_is_no_approval_makes_nothing_gold(value):
    assert gold_of([record(feedback("good", value))], settings(approval="good")) is None


def test_an_approved_answer_that_cannot_be_read_is_no_gold():
    assert gold_of([record(feedback("good", True), output={"x": 1})], settings(approval="good")) is None


def test_people_who_say_the_same_in_other_case_and_space_agree_and_the_first_counts():
    assert gold_of([record(expected("Paris", "ben", 2), expected(" paris ", "ana", 1))], settings()) == " paris "


def test_people_who_say_different_things_disagree():
    with pytest.raises(LeftOutError, match="people_disagree"):
        gold_of([record(expected("Paris"), expected("Nice", "ben"))], settings())
    with pytest.raises(LeftOutError, match="people_disagree"):  # whatever they say it with
        gold_of([record(expected("Paris"), feedback("correction", "Nice", "ben"))], settings())
    with pytest.raises(LeftOutError, match="people_disagree"):  # and of whichever trace of the same question
        gold_of([record(expected("Paris")), record(expected("Nice", "ben"))], settings())


def test_an_answer_that_one_approves_and_another_does_not_is_disputed():
    disputed = record(feedback("good", True), feedback("good", False, "ben"))
    with pytest.raises(LeftOutError, match="people_disagree"):
        gold_of([disputed], settings(approval="good"))
    with pytest.raises(LeftOutError, match="people_disagree"):
        gold_of([record(expected("lyon"), feedback("good", False, "ben"))], settings(approval="good"))
    # that the answer is wrong says nothing against another one
    assert gold_of([record(expected("Paris"), feedback("good", False, "ben"))], settings(approval="good")) == "Paris"


def test_the_later_word_of_a_person_replaces_the_earlier_one_but_of_the_unknown_all_count():
    assert gold_of([record(expected("Nice", time=1), expected("Paris", time=2))], settings()) == "Paris"
    with pytest.raises(LeftOutError, match="people_disagree"):
        gold_of([record(expected("Nice", "", 1), expected("Paris", "", 2))], settings())


def test_feedback_that_is_wanted_must_be_there_with_its_value():
    given = record(feedback("correct", False), feedback("stars", 2))
    assert has_feedback(given, {})
    assert has_feedback(given, {"correct": False, "stars": 2})
    assert not has_feedback(given, {"correct": True})
    assert not has_feedback(given, {"correct": False, "polite": True})
    assert not has_feedback(
        record(feedback("correct", False, time=1), feedback("correct", True, time=2)), {"correct": False}
    )

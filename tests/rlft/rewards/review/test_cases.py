"""What attempts deserve becomes cases that a specification takes as they are, and that hold where they should."""

from __future__ import annotations

import pytest

from rlft.messages import make_call
from rlft.rewards.review import cases
from rlft.rewards.specification.model import Specification
from rlft.types import Message
from tests.rlft.rewards.review.said import opinion

SPEC = {"right": {"says": "Right.", "grader": {"type": "exact"}}}


@pytest.mark.parametrize(
    ("deserved", "bounds"),
    [
        (0.25, {"at_least": 0.3, "at_most": 0.7}),  # (0.25 - 0.1) * 2 and (0.25 + 0.1) * 2
        (0.0, {"at_most": 0.2}),
        (1.0, {"at_least": 1.8}),
        (0.05, {"at_most": 0.3}),
    ],
)
def test_the_total_must_lie_near_what_was_said(deserved, bounds):
    [case] = cases([opinion(total=1.5, deserved=deserved, why="A guess.")])
    assert {name: case[name] for name in ("at_least", "at_most") if name in case} == bounds
    assert (case["attempt"], case["task"]) == ("Lima", "peru")
    assert case["reason"] == f"It deserves {deserved:.0%} by a person; peru/0 was paid 1.5: A guess."
    [read] = Specification.model_validate({"criteria": SPEC, "cases": [case]}).cases
    assert read.task == "peru"


def test_of_several_people_the_mean_counts():
    said = [opinion(deserved=0.5, person="a", why="So so."), opinion(deserved=0.7, person="b"), opinion(1)]
    [case] = cases(said)
    assert (case["at_least"], case["at_most"]) == (1.0, 1.4)  # (0.6 -+ 0.1) * 2
    assert case["reason"] == "It deserves 60% by 2 people; peru/0 was paid 1: So so."


def test_an_attempt_with_calls_is_a_list_of_messages():
    messages = (
        Message(role="assistant", content="", tool_calls=[make_call("look", {"word": "Peru"}, "c1")]),
        Message(role="tool", content="Lima", tool_call_id="c1"),
        Message(role="assistant", content="Lima"),
    )
    [case] = cases([opinion(messages=messages, deserved=1.0)])
    assert [message["role"] for message in case["attempt"]] == ["assistant", "tool", "assistant"]
    [read] = Specification.model_validate({"criteria": SPEC, "cases": [case]}).cases
    assert isinstance(read.attempt, list)
    assert len(read.attempt) == 3

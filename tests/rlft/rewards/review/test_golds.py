"""Right answers that people gave become rows of tasks; where people disagree there is none."""

from __future__ import annotations

from rlft.rewards.review import golds
from tests.rlft.attempts import make_task
from tests.rlft.rewards.review.said import opinion

CHILE = make_task("chile", "The capital of Chile?", None)


def test_the_most_frequent_answer_counts_and_what_the_data_has_stands_beside_it():
    said = [opinion(0, person="a", answer="Lima"), opinion(1, person="b", answer=" Lima "), opinion(2, answer="Cusco")]
    rows, split = golds([*said, opinion(3, answer=""), opinion(4, deserved=1.0)])
    assert rows == [{"id": "peru", "prompt": "The capital of Peru?", "answer": "Lima", "was": "Limma", "people": 2}]
    assert split == []


def test_an_answer_that_people_confirm_is_no_correction():
    rows, split = golds([opinion(0, answer=" Limma"), opinion(0, task=CHILE, answer="Santiago")])
    assert [row["id"] for row in rows] == ["chile"]
    assert split == []


def test_a_task_that_people_are_split_over_has_no_row():
    said = [opinion(0, answer="Lima"), opinion(1, answer="Cusco"), opinion(0, task=CHILE, answer="Santiago")]
    rows, split = golds(said)
    assert [row["id"] for row in rows] == ["chile"]
    assert split == ["peru"]
    assert golds([]) == ([], [])

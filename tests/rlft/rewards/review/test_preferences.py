"""Attempts at one task that deserve different rewards become pairs, which `training.algorithm: dpo` reads."""

from rlft.rewards.review import preferences
from tests.rlft.attempts import make_task
from tests.rlft.rewards.review.said import opinion

CHILE = make_task("chile", "The capital of Chile?", "Santiago")


def test_pairs_are_of_one_task_of_other_words_and_far_enough_apart():
    said = [
        opinion(0, "Lima", deserved=1.0),
        opinion(1, "Cusco", deserved=0.1, person="a"),
        opinion(1, "Cusco", deserved=0.3, person="b"),  # 0.2 in the mean
        opinion(2, "Lima", deserved=0.5),  # the words of the first one
        opinion(3, "Rome", deserved=0.3),  # 0.1 from the second one, 0.2 from the third
        opinion(4, "Quito"),
        opinion(0, "Santiago", task=CHILE, deserved=0.0),
    ]
    pairs = preferences(said)
    better = [("Lima", "Cusco"), ("Lima", "Rome"), ("Lima", "Cusco"), ("Lima", "Rome")]
    assert [(each["chosen"], each["rejected"]) for each in pairs] == better
    assert {each["prompt"] for each in pairs} == {"The capital of Peru?"}

"""Attempts at one task that deserve different rewards become pairs, which `rlft reward agreement` reads."""

from __future__ import annotations

import json
from dataclasses import replace

from rlft.rewards.judges.pairs import read_pairs
from rlft.rewards.review.opinions import preferences
from rlft.rewards.specification.grader import item_of
from tests.rlft.attempts import make_task
from tests.rlft.rewards.review.said import opinion

CHILE = make_task("chile", "The capital of Chile?", "Santiago")


def test_pairs_are_of_one_task_of_other_words_and_far_enough_apart(tmp_path):
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
    assert [(each["output_1"], each["output_2"], each["label"]) for each in pairs] == [
        ("Lima", "Cusco", 1),
        ("Lima", "Rome", 1),
        ("Cusco", "Lima", 2),
        ("Lima", "Rome", 1),
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    read = read_pairs(path)
    assert {pair.group for pair in read} == {"peru"}
    assert read[0].input == "The capital of Peru?"


def test_a_specification_sees_the_task_of_a_pair_as_it_did_in_the_run(tmp_path):
    # `label` and `input` are columns of many data sets, and something else in a pair.
    columns = {"label": "south", "input": "x", "desk": "e", "answer": "Lima"}
    task = replace(make_task("peru", "The capital of Peru?", "Lima"), info=columns)
    said = [opinion(0, "Lima", deserved=1.0, task=task), opinion(1, "Cusco", deserved=0.0, task=task)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in preferences(said)))
    [pair] = read_pairs(path)
    assert item_of(pair.task()).items() >= item_of(task).items()
    assert pair.task().answer == "Lima"
    assert pair.label == 1

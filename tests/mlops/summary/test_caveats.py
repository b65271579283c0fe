"""Sections of the summary, by value, from reports of four tasks."""

import pytest

from mlops.summary.arms import contamination_sections, text_changes
from rlft.evaluation.forgetting import TextBits, compare_bits
from rlft.tasks.contamination import ContaminationReport, Overlap
from rlft.types import Evaluation, EvaluationReport


def evaluation(**scores):
    return Evaluation(
        {split: EvaluationReport(split, "p", 1, {}, {"accuracy": found}) for split, found in scores.items()}
    )


TRAINED = evaluation(test={"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}, gate={"x": 1.0})
START = evaluation(test={"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, gate={"x": 1.0})
FOUND = ContaminationReport(
    {"test": ("a", "b", "c", "d"), "gate": ("x",), "off_distribution": ()},
    {"a": Overlap("exact", "train", "t", "w"), "x": Overlap("overlapping", "train", "t", "w")},
    {"train": 1},
)


def test_the_score_and_the_difference_are_also_those_of_the_clean_tasks():
    sections = contamination_sections(FOUND, TRAINED, START, "accuracy")
    assert sorted(sections) == ["gate", "test"]  # of the third nothing was evaluated
    test = sections["test"]
    assert (test.tasks, test.exact, test.overlapping) == (4, 1, 0)
    # Without a: 2 of 3 right after training, 0 of 3 before.
    assert (test.clean.mean, test.clean.tasks) == (pytest.approx(2 / 3), 3)
    assert test.clean_difference.mean == pytest.approx(2 / 3)
    assert test.clean_difference.ci_low < 2 / 3 < test.clean_difference.ci_high
    assert "On the 3 clean tasks `accuracy` is 66.7 %" in test.sentence
    gate = sections["gate"]
    assert (gate.overlapping, gate.clean, gate.clean_difference) == (1, None, None)


def test_what_training_cost_with_what_the_warm_start_had_come_to():
    changes = compare_bits(TextBits({"code": (1.5, 2.5)}), TextBits({"code": (1.0, 2.0)}), 0.05)
    found = text_changes(changes, TextBits({"code": (1.0, 2.5)}))["code"]
    assert (found.before, found.warm_start, found.after, found.mean) == (1.5, 1.75, 2.0, 0.5)
    assert (found.ci_low, found.ci_high, found.verdict) == (0.5, 0.5, "cost")  # both differences are 0.5
    assert text_changes(changes, None)["code"].warm_start is None

import pytest

from rlft.evaluation.statistics import SHARE, mean_interval
from rlft.tasks.contamination import ContaminationReport, Overlap, clean_mean, contamination_sentence
from rlft.types import EvaluationReport

EXACT, PART = Overlap("exact", "train", "t1", "a b"), Overlap("overlapping", "train", "t2", "c d")
SCORES = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 0.0}
REPORT = EvaluationReport("test", "p", 1, {}, {"accuracy": SCORES})
FOUND = ContaminationReport(
    {"test": ("a", "b", "c", "d", "e", "unscored")}, {"a": EXACT, "b": PART, "x": EXACT}, {"train": 9}
)


def test_the_mean_is_that_of_the_clean_tasks_by_their_groups():
    clean = clean_mean(REPORT, FOUND, "accuracy")  # without a and b: 1 of 3
    assert clean == mean_interval({"c": 0.0, "d": 1.0, "e": 0.0}, {}, SHARE)
    assert (clean.mean, clean.count) == (pytest.approx(1 / 3), 3)
    grouped = EvaluationReport("test", "p", 1, {}, {"accuracy": SCORES}, groups=dict.fromkeys(SCORES, "one"))
    clean = clean_mean(grouped, FOUND, "accuracy")
    assert (clean.groups, clean.low, clean.high) == (1, 0.0, 1.0)


def test_sentences():
    said = contamination_sentence(FOUND, REPORT, clean_mean(REPORT, FOUND, "accuracy"), "accuracy")
    assert said.startswith(
        "Of the 6 tasks of `test`, 2 are not new to the trained model (1 by the whole prompt, 1 by a passage of it). "
        "On the 3 clean tasks `accuracy` is 33.3 % ("
    )
    assert said.endswith("on all 5 it is 60.0 %.")  # 3 of 5
    clean = ContaminationReport({"test": ("a",)}, {}, {"train": 9})
    none = "None of the 1 tasks of `test` was found among the train tasks or demonstrations."  # by words alone
    assert contamination_sentence(clean, REPORT, None, "accuracy") == none

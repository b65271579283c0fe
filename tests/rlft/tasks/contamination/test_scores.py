import pytest

from rlft.evaluation.statistics import SHARE, mean_interval
from rlft.tasks.contamination import (
    CleanScore,
    ContaminationReport,
    Overlap,
    clean_score,
    contamination_sentence,
)
from rlft.types import EvaluationReport

EXACT, PART = Overlap("exact", "train", "t1", "a b"), Overlap("overlapping", "train", "t2", "c d")
SCORES = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 1.0, "e": 0.0}
REPORT = EvaluationReport("test", "p", 1, {}, {"accuracy": SCORES})
FOUND = ContaminationReport(
    {"test": ("a", "b", "c", "d", "e", "unscored")}, {"a": EXACT, "b": PART, "x": EXACT}, {"train": 9}
)


def test_scores_with_and_without_what_is_not_new():
    scores = clean_score(REPORT, FOUND, "accuracy")
    # All: 3 of 5. Without a and b: 1 of 3.
    assert scores == CleanScore(
        mean_interval(SCORES, {}, SHARE),
        mean_interval({"c": 0.0, "d": 1.0, "e": 0.0}, {}, SHARE),
        exact=1,
        overlapping=1,
    )
    assert scores.all.mean == pytest.approx(0.6)
    assert (scores.clean.mean, scores.clean.count) == (pytest.approx(1 / 3), 3)


def test_groups_make_the_interval():
    grouped = EvaluationReport("test", "p", 1, {}, {"accuracy": SCORES}, groups=dict.fromkeys(SCORES, "one"))
    assert (grouped_score := clean_score(grouped, FOUND, "accuracy")).clean.groups == 1
    assert (grouped_score.clean.low, grouped_score.clean.high) == (0.0, 1.0)


def test_sentences():
    score = clean_score(REPORT, FOUND, "accuracy")
    said = contamination_sentence(FOUND, "test", score, "accuracy")
    assert said.startswith(
        "Of the 6 tasks of `test`, 2 are not new to the trained model (1 by the whole prompt, 1 by a passage of it). "
        "On the 3 clean tasks `accuracy` is 33.3 % ("
    )
    assert said.endswith("on all 5 it is 60.0 %.")
    clean = ContaminationReport({"test": ("a",)}, {}, {"train": 9})
    none = "None of the 1 tasks of `test` was found among the train tasks or demonstrations."  # by words alone
    assert contamination_sentence(clean, "test", score, "accuracy") == none


def test_a_metric_that_is_not_there():
    with pytest.raises(ValueError, match=r"no scores for 'reward'.*accuracy"):
        clean_score(REPORT, FOUND, "reward")

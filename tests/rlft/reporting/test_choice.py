"""What is said of the validation that was chosen, on scores whose differences are known."""

from rlft.reporting.page import choice
from rlft.types import EvaluationReport, Interval


def report(solved):
    """40 tasks, of which the first `solved` are solved."""
    scores = {str(task): float(task < solved) for task in range(40)}
    mean = solved / 40
    return EvaluationReport("validation", "p", 1, {"accuracy": Interval(mean, 0, 1, 40)}, {"accuracy": scores})


def said(best, *solved):
    return choice({2 * number: report(each) for number, each in enumerate(solved)}, "accuracy", best)


def test_where_all_are_equal_none_is_better():
    assert said(2, 20, 20, 20).startswith("The policy after 2 rounds was chosen: its mean is the highest, and")
    assert said(2, 20, 20, 20).endswith("better than none of the others beyond chance, so each of them may be as good.")
    # one task of 40 more is within chance, too
    assert said(2, 20, 21, 20).endswith("better than none of the others beyond chance, so each of them may be as good.")


def test_what_lies_within_chance_is_named():
    # 36 of 40 tasks more than the start is no chance, the same as another is
    assert said(2, 0, 36, 36).endswith("Those after 4 rounds may be as good: the difference is within chance.")
    assert said(2, 0, 36, 36, 36, 36, 36, 36).endswith(
        "the first of those that are equal. 5 of the others may be as good: the difference is within chance."
    )
    assert said(0, 20, 0, 0).startswith("The policy that training started from was chosen")
    assert said(2, 0, 36, 0).endswith("It is better than each of the others beyond chance.")


def test_nothing_is_said_where_nothing_can_be_compared():
    assert said(None, 20, 20, 20) == said(2, 20) == said(0, 20) == said(2, 0, 36) == ""  # one round is no choice


def test_a_start_that_was_higher_is_told():
    told = said(2, 30, 20, 10)
    assert told.startswith(
        "The policy after 2 rounds was chosen: its mean is the highest of the trained rounds, and the"
    )
    assert " of those that are equal. The start, which is not chosen from, has a higher one. " in told
    assert "trained rounds" not in said(2, 20, 20, 10)  # as high as the start
    assert "trained rounds" not in said(0, 20, 10, 10)


def test_one_round_is_one():
    told = choice({1: report(36), 2: report(36), 3: report(0)}, "accuracy", 1)
    assert told.startswith("The policy after 1 round was chosen: ")
    assert "Those after 2 rounds may be as good" in told
    assert "Those after 1 round may" in choice({1: report(36), 2: report(37), 3: report(0)}, "accuracy", 2)
    assert "Those after 0, 1 round may" in choice(
        {0: report(36), 1: report(36), 2: report(37), 3: report(0)}, "accuracy", 2
    )

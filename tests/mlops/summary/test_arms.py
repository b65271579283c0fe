"""What the summary says a control was made from."""

from __future__ import annotations

import pytest

from mlops.summary.arms import cost_of
from rlft.controls.best import Candidate, ControlReport
from rlft.controls.few_shot import PromptReport, PromptTrial


def report(*forms, answers="gold", tokens=10.0):
    candidates = tuple(Candidate(1e-3, 5, 0.5, form=form) for form in forms)
    return ControlReport(9.0, 4.0, 0.5, 7, "accuracy", candidates, answers=answers, answer_tokens=tokens)


@pytest.mark.parametrize(
    ("made", "attempts", "answers"),
    [
        (report("gold", tokens=24.9), 100.0, "bare"),  # less than a quarter
        (report("gold", tokens=25.0), 100.0, "gold"),
        (report("gold", "demonstration"), 100.0, "gold"),  # these did better than what the environment demonstrates
        (report("gold", "demonstration", answers="demonstration"), 100.0, "demonstration"),
        (report("file", answers="file"), 100.0, "file"),
        (report("gold"), None, "gold"),
    ],
)
def test_gold_answers_are_bare_if_they_are_short_and_all_there_is(made, attempts, answers):
    cost = cost_of(made, attempts)
    assert (cost.answers, cost.answer_tokens, cost.attempt_tokens) == (answers, made.answer_tokens, attempts)
    assert (cost.demonstrations, cost.flops, cost.budget, cost.seconds) == (7, 4.0, 9.0, 0.5)


def test_other_controls_have_no_answers():
    prompted = PromptReport(9.0, 4.0, 0.5, "accuracy", (), PromptTrial(0, ""))
    for made in (report("full", answers=""), prompted):
        cost = cost_of(made, 100.0)
        assert (cost.answers, cost.answer_tokens, cost.attempt_tokens) == ("", None, None)

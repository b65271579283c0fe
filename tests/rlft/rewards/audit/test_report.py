"""Problems as the sentences that people read."""

import pytest

from rlft.rewards.audit.report import Problem
from rlft.texts.secrets import resolve


@pytest.mark.parametrize(
    ("problem", "said", "finding"),
    [
        (Problem("tool look_up", "it has no description", "say what it does"),
         "tool look_up: it has no description; what to do: say what it does",
         "it has no description; what to do: say what it does"),
        (Problem("tasks", "there are none"), "tasks: there are none", "there are none"),
    ],
)  # fmt: skip
def test_a_problem_is_a_sentence_with_its_place_and_a_finding_is_one_without(problem, said, finding):
    assert (str(problem), problem.finding) == (said, finding)


def test_a_problem_shows_no_secret(monkeypatch):
    monkeypatch.setenv("JUDGE", "hush-hush-hush")
    resolve("env:JUDGE", "judge.key")
    assert str(Problem("at hush-hush-hush", "no hush-hush-hush", "ask hush-hush-hush")) == (
        "at ***: no ***; what to do: ask ***"
    )

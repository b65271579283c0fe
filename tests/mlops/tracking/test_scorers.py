from __future__ import annotations

from dataclasses import replace

import pytest

from mlops.tracking.evaluation import scorer_feedback
from mlops.tracking.scorers import load_scorers, score_attempts, scorers_digest
from rlft.errors import ConfigError, EnvironmentSetupError
from rlft.outcome import Failure
from rlft.suites.measures import evaluate_cell
from rlft.suites.scorers import ScorerScores, as_number, with_scores
from rlft.types import Rollouts
from tests.factories import make_scored, make_task, make_task_set

FILE = """
from mlflow.entities import Feedback
from mlflow.genai import scorer


@scorer
def right(outputs, expectations):
    return outputs == expectations["expected_response"]


@scorer
def kind(outputs):
    return Feedback(value="short", rationale="one sign")


@scorer
def fails(inputs, trace):
    assert inputs["messages"][-1]["content"] == "1+1="
    assert trace.data.spans[0].name == "rollout"
    raise KeyError("no key")


plain = 3
"""
TASKS = make_task_set(make_task("a", split="test", info={"c": "x"}), make_task("b", answer="3", split="test"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_scorers_of_a_file_and_built_in_ones_score_every_attempt(file):
    rollouts, _ = make_scored({"a": [1.0], "b": [1.0]})
    scorers = load_scorers([f"{file}:right", f"{file}:kind", "PIIDetection"])
    scores = score_attempts(scorers, rollouts, TASKS)
    assert scores.values["right"] == {"train-0-a-0": True, "train-0-b-0": False}  # both say 2
    assert scores.values["kind"] == {"train-0-a-0": "short", "train-0-b-0": "short"}
    assert scores.rationales["kind"]["train-0-a-0"] == "one sign"
    assert len(scores.values) == 3


def test_what_a_scorer_raises_is_an_error_and_no_zero(file):
    rollouts, _ = make_scored({"a": [1.0], "b": [1.0]})
    rollouts = Rollouts((rollouts.rows[0], replace(rollouts.rows[1], error=Failure("engine", "gone"))))
    scores = score_attempts(load_scorers([f"{file}:fails"]), rollouts, TASKS)
    assert scores.values == {}
    assert scores.errors == {"fails": {"train-0-a-0": "KeyError: 'no key'"}}
    [feedback] = scorer_feedback(scores)["train-0-a-0"]
    assert feedback.error is not None
    assert feedback.value is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine.py:plain", "is no scorer: it is a int"),
        (
            "mine.py:absent",
            "is no scorer: there is no such name in it\n  what to do: name one that the file has: fails, ",
        ),
        ("mine.py:rigt", "what to do: did you mean right? Else name one that the file has: fails, kind, right"),
        ("Absent", "MLflow has no scorer 'Absent'\n  what to do: write FILE.py:NAME, or one of "),
        (
            "RegexMatc",
            "MLflow has no scorer 'RegexMatc'\n  what to do: did you mean RegexMatch? Else write FILE.py:NAME",
        ),
        ("Guidelines", "cannot be made without arguments"),
    ],
)
def test_what_is_no_scorer_is_told_of_before_anything_is_attempted(file, monkeypatch, name, says):
    monkeypatch.chdir(file.parent)
    with pytest.raises(ConfigError) as error:
        load_scorers([name])
    assert says in str(error.value)


def test_a_file_that_is_not_there_and_one_name_twice(file):
    with pytest.raises(EnvironmentSetupError, match="there is no file"):
        load_scorers(["absent.py:right"])
    with pytest.raises(ConfigError, match="two scorers are called 'right'"):
        load_scorers([f"{file}:right", f"{file}:right"])


def test_the_digest_is_another_after_an_edit(file):
    first = scorers_digest([f"{file}:right"])
    assert scorers_digest([f"{file}:right"]) == first
    file.write_text(FILE.replace("==", "!="))
    assert scorers_digest([f"{file}:right"]) != first


def test_values_become_metrics_over_tasks_by_split_and_slice():
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [0.0, 0.0]})
    measures = evaluate_cell(rollouts, rewards, TASKS, ["c"], None)[1]
    ids = [row.rollout_id for row in rollouts]
    scores = ScorerScores(
        values={
            "safe": {ids[0]: "yes", ids[1]: "no", ids[2]: True},
            "length": dict(zip(ids, [1.0, 3.0, 5.0, 5.0], strict=True)),
            "tone": {ids[0]: "dry", ids[1]: "warm", ids[2]: "dry"},
        },
        errors={"safe": {ids[3]: "no key"}, "length": {}},
    )
    found = with_scores(measures, scores, rollouts, TASKS).splits["test"]
    means = {name: each.mean for name, each in found.metrics.items() if name.startswith("scorers/")}
    # Task a: yes and no are 0.5, b: 1 of its one value; lengths 2 and 5; dry is 1 of 2 and 1 of 1.
    assert means == {"scorers/safe": 0.75, "scorers/length": 3.5, "scorers/tone/dry": 0.75, "scorers/tone/warm": 0.25}
    assert found.scorer_errors == {"safe": 1}
    assert found.scorer_first_errors == {"safe": "no key"}
    assert found.scorer_attempts == {"safe": 3, "length": 4, "tone": 3}
    assert found.slices["c"]["x"]["scorers/safe"].mean == 0.5


def test_the_first_error_of_a_scorer_is_that_of_the_first_attempt_in_a_split():
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [0.0, 0.0]})
    measures = evaluate_cell(rollouts, rewards, TASKS, [], None)[1]
    ids = [row.rollout_id for row in rollouts]
    errors = {"safe": {ids[3]: "KeyError: 'b'", ids[2]: "KeyError: 'a'"}}  # in the order in which they came back
    found = with_scores(measures, ScorerScores(values={}, errors=errors), rollouts, TASKS).splits["test"]
    assert (found.scorer_errors, found.scorer_first_errors) == ({"safe": 2}, {"safe": "KeyError: 'a'"})


@pytest.mark.parametrize(("value", "number"), [(True, 1.0), ("Yes", 1.0), ("fail", 0.0), (2.5, 2.5), ("dry", None)])
def test_numbers(value, number):
    assert as_number(value) == number

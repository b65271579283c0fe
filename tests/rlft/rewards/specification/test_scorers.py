"""Scorers and judges of MLflow decide criteria, and what is no score is an error."""

from __future__ import annotations

import json
import textwrap

import pytest

from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import EnvironmentSetupError
from rlft.rewards.specification.model import Specification
from tests.rlft.rewards.judges.judged import scored

FILE = """
from mlflow.entities import AssessmentError, Feedback
from mlflow.genai import scorer

@scorer
def short(outputs):
    return len(outputs) <= 4

@scorer
def right(outputs, expectations):
    return Feedback(value=0.75 if outputs == expectations["expected_response"] else 0.25, rationale="as it is")

@scorer
def asked(inputs):
    return inputs["messages"][0]["content"] == "The capital of Peru?"

@scorer
def words(outputs):
    return "Yes" if outputs == "Lima" else "no"

@scorer
def label(outputs):
    return "fine" if outputs == "Lima" else "poor"

@scorer
def failing(outputs):
    return Feedback(error=AssessmentError(error_code="GONE", error_message="the model is away"))

@scorer
def raising(outputs):
    raise ValueError("cannot")

@scorer
def large(outputs):
    return 7

@scorer
def traced(trace):
    return True

no_function = 3
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FILE)

    def make(name, **more):
        grader = {"type": "mlflow", "scorer": f"mine.py:{name}", **more}
        spec = {"criteria": {name: {"says": "It is so.", "grader": grader}}}
        return load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})

    return make


@pytest.mark.parametrize(
    ("name", "more", "lima", "other"),
    [
        ("short", {}, 1.0, 0.0),
        ("right", {}, 0.75, 0.25),
        ("asked", {}, 1.0, 1.0),
        ("words", {}, 1.0, 0.0),
        ("label", {"passing": ["fine"]}, 1.0, 0.0),
    ],
)
def test_what_a_scorer_says_is_the_score(made, name, more, lima, other):
    rows = scored(made(name, **more), "Lima", "I do not know")
    assert [row.total for row in rows] == [lima, other]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("failing", "the model is away"),
        ("raising", "cannot"),
        ("large", "neither a number from 0 to 1"),
        ("label", "“'fine'”, neither a number from 0 to 1 nor yes or no"),
        ("traced", "asks for the argument 'trace'"),
    ],
)
def test_what_is_no_score_is_an_error_and_never_a_0(made, name, told):
    [row] = scored(made(name), "Lima")
    assert row.total is None
    assert told in str(row.error)


def test_a_judge_of_mlflow_is_named_like_any_scorer(made, tmp_path, monkeypatch):
    judge = textwrap.dedent("""
        from mlflow.entities import Feedback
        from mlflow.genai import make_judge

        kind = make_judge(name="kind", instructions="Is {{ outputs }} kind?", model="openai:/gpt-x")
    """)
    (tmp_path / "judges.py").write_text(judge)
    asked = []

    def invoke(self, *, outputs=None, **more):
        from mlflow.entities import Feedback

        asked.append(outputs)
        return Feedback(value="yes", rationale="it is")

    monkeypatch.setattr("mlflow.genai.judges.instructions_judge.InstructionsJudge.__call__", invoke)
    spec = {"criteria": {"kind": {"says": "Kind.", "grader": {"type": "mlflow", "scorer": "judges.py:kind"}}}}
    [row] = scored(load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)}), "Lima")
    assert (row.total, asked) == (1.0, ["Lima"])


def test_the_file_of_a_scorer_is_part_of_the_rewards_fingerprint(made, tmp_path):
    before = environment_fingerprints(made("short"), PLAIN, {}).reward
    (tmp_path / "mine.py").write_text(FILE.replace("<= 4", "<= 5"))
    assert environment_fingerprints(made("short"), PLAIN, {}).reward != before


def test_what_is_no_scorer_is_told_when_it_is_loaded(made):
    for name in ("nothing", "no_function"):
        with pytest.raises(EnvironmentSetupError, match="mine"):
            made(name)
    with pytest.raises(ValueError, match="names no scorer"):
        Specification.model_validate({"criteria": {"a": {"says": "a", "grader": {"type": "mlflow", "scorer": "mine"}}}})

"""OpenAI's graders as they are: their operations by value, and what is made of a file."""

import asyncio

import pytest

from rlft.errors import ConfigError
from rlft.sandbox.create import create_sandbox
from rlft.specification.attempt import Attempt, Helpers
from rlft.specification.importing import import_grader
from rlft.specification.scoring import score_attempt

TEXT = {"input": "{{sample.output_text}}", "reference": "{{ item.answer }}"}
CHECK = {"type": "string_check", "name": "check", **TEXT}
LIKE = {"type": "text_similarity", "name": "like", **TEXT, "evaluation_metric": "rouge_l"}
PROGRAM = {
    "type": "python",
    "name": "program",
    "source": "def grade(sample, item):\n    print('noise')\n"
    "    return len(sample['output_text']) / len(item['answer'])\n",
}
NONE = Helpers()
ASK = [{"role": "user", "content": "Is {{sample.output_text}} polite?"}]


def total(grader, text, answer="Lima", helpers=NONE):
    specification = import_grader(grader, where="g.json")
    attempt = Attempt([{"role": "assistant", "content": text}], {"answer": answer}, helpers)
    scored = asyncio.run(score_attempt(specification, attempt))
    return sum(specification.criteria[name].weight * each.counts for name, each in scored.items())


@pytest.mark.parametrize(
    ("operation", "scores"),
    [
        ("eq", {"Lima": 1, "lima": 0, "Lima ": 0}),
        ("ne", {"Lima": 0, "lima": 1}),
        ("like", {"in Lima.": 1, "in lima": 0}),
        ("ilike", {"in lima": 1, "in Cusco": 0}),
    ],
)
def test_string_check(operation, scores):
    assert {text: total({**CHECK, "operation": operation}, text) for text in scores} == scores


def test_text_similarity_and_output_json():
    assert total(LIKE, "in Lima") == pytest.approx(2 / 3)  # one word of two and of one
    of_json = {**CHECK, "input": "{{sample.output_json.city}}", "operation": "eq"}
    assert total(of_json, '{"city": "Lima"}') == 1
    assert total(of_json, "Lima") == 0  # no JSON


def test_a_sum_becomes_criteria_and_any_other_formula_one():
    multi = {"type": "multi", "name": "both", "graders": {"a": {**CHECK, "operation": "eq"}, "b": LIKE}}
    summed = import_grader({**multi, "calculate_output": "0.7 * a + b * 0.3"}, where="g.json")
    assert {name: each.weight for name, each in summed.criteria.items()} == {"a": 0.7, "b": 0.3}
    for formula, value in (("0.7 * a + b * 0.3", 0.2), ("max(a, b) ^ 2", 4 / 9), ("min(a, b)", 0)):
        assert total({**multi, "calculate_output": formula}, "in Lima") == pytest.approx(value)


SCORED = {"type": "score_model", "name": "s", "model": "m", "input": ASK, "range": [0, 10]}


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [("max(a, b)", 0, 10), ("a * b", 0, 10), ("max(a, b) / 10", 0, 1), ("a - b * 2 - 1", -3, 9), ("1 + a", 0, 11)],
)
def test_a_formula_has_the_bounds_of_its_graders(formula, low, high):
    multi = {"type": "multi", "name": "m", "graders": {"a": SCORED, "b": {**CHECK, "operation": "eq"}}}
    criterion = import_grader({**multi, "calculate_output": formula}, where="g.json").criteria["m"]
    assert (criterion.minimum, criterion.maximum, criterion.weight) == (low, high, 1)
    with pytest.raises(ConfigError, match=r"(?s)'a / b' has no bound.*bound that part"):
        import_grader({**multi, "calculate_output": "a / b"}, where="g.json")


def test_the_bounds_of_a_program_are_told():
    multi = {"type": "multi", "name": "m", "graders": {"a": PROGRAM}, "calculate_output": "max(a, 0)"}
    for grader in (PROGRAM, multi):
        assert "taken to score from 0 to 1" in import_grader(grader, where="g.json").says
    assert "taken to score" not in import_grader(LIKE, where="g.json").says


def test_a_program_is_run_in_the_sandbox(bubblewrap):
    helpers = Helpers(sandbox=create_sandbox())
    assert total(PROGRAM, "Li", helpers=helpers) == 0.5
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        total(PROGRAM, "Li", answer="", helpers=helpers)


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ({**LIKE, "evaluation_metric": "meteor"}, "WordNet"),
        ({**LIKE, "evaluation_metric": "cosine"}, "hosted embeddings"),
        ({**CHECK, "operation": "is"}, "operation"),
        ({**PROGRAM, "source": "x = 1"}, "defines no grade"),
        ({"type": "multi", "name": "m", "graders": {"a": LIKE}, "calculate_output": "a + b"}, "uses b"),
        (
            {"type": "label_model", "model": "m", "input": ASK, "labels": ["a"], "passing_labels": ["b"]},
            "the labels are a",
        ),
        ({"type": "other"}, "no grader"),
        ([], "no grader"),
    ],
)
def test_what_is_refused_says_why(grader, said):
    with pytest.raises(ConfigError) as caught:
        import_grader(grader, where="g.json")
    assert said in str(caught.value)


def test_models_are_parsed_with_their_ranges():
    found = import_grader(
        {"type": "score_model", "name": "s", "model": "m", "input": ASK, "range": [-1.0, 5.0]}, where=""
    )
    criterion = found.criteria["s"]
    assert (criterion.minimum, criterion.maximum) == (-1.0, 5.0)
    assert criterion.grader.needs_judge()

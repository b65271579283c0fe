"""What stands beside an evaluation of models, with steps that hold their results."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines import scenarios as module
from pipelines.scenarios import ASKED, caveat_metrics, forgetting_as_json, suite_contamination, suite_forgetting
from rlft.config import SuiteConfig
from rlft.evaluation.forgetting import TextBits
from rlft.tasks.contamination import compare_splits
from rlft.types import Evaluation, EvaluationReport
from tests.factories import make_task, make_task_set
from tests.pipelines.test_caveats import Held

BITS = {"one": TextBits({"code": (1.0, 2.0)}), "two": TextBits({"code": (1.5, 2.5)})}


def suite(**changes):
    source = {"source": "jsonl", "path": "t.jsonl", "prompt": "q"}
    scenario = {"tasks": source, "environment": {"name": "e.py:E"}, "slices": ["level"]}
    return SuiteConfig.model_validate({"name": "s", "scenarios": {"cell": scenario}, **changes})


def test_every_model_is_measured_but_those_behind_an_address(monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "measure_forgetting", lambda policy, *_, id: asked.append((policy, id)) or Held(BITS[policy])
    )
    found = suite_forgetting(suite(), {"one": "one", "far": None, "two": "two"}, {"far"})
    assert asked == [("one", "measure_forgetting_one"), ("two", "measure_forgetting_two")]
    assert set(found["far"].left_out.values()) == {ASKED}
    told = forgetting_as_json(found, 0.05)
    assert told["models"]["two"]["bits_per_byte"] == {"code": 2.0}
    (pair,) = told["pairs"]
    assert (pair["first"], pair["second"], pair["texts"]["code"]["verdict"]) == ("one", "two", "cost")
    assert pair["sentences"][0].startswith("two predicts `code` worse than one: +0.500 bits per byte")
    assert caveat_metrics("two", "cell", {}, told) == {"forgetting/code/bits_per_byte": 2.0}
    assert suite_forgetting(suite(forgetting=False), {"one": "one"}, set()) == {}


@pytest.mark.parametrize("train", [True, False])
def test_scores_on_tasks_that_are_not_among_the_train_tasks_by_slice(monkeypatch, train):
    tests = [
        make_task(name, name, split="test", info={"level": level}) for name, level in (("a", 1), ("b", 1), ("c", 2))
    ]
    tasks = Held(make_task_set(*tests, *([make_task("t", "A")] if train else [])))
    monkeypatch.setattr(
        module, "find_contamination", lambda given, splits, *_, id: Held(compare_splits(given.load(), splits))
    )
    scores = {"accuracy": {"a": 1.0, "b": 0.0, "c": 1.0}}
    report = EvaluationReport("test", "p", 1, {}, scores, groups={name: name for name in "abc"})
    each = SimpleNamespace(evaluation=Evaluation({"test": report}), tasks=tasks)
    found = suite_contamination(suite(), {"cell": tasks}, {"cell": {"one": each}})
    if not train:
        assert found == {}
        return
    test = found["cell"]["test"]
    assert (test["tasks"], test["exact"], test["overlapping"]) == (3, 1, 0)
    assert test["sentence"].startswith("Of the 3 tasks of `test`, 1 is among the train tasks or demonstrations")
    of_one = test["scores"]["one"]
    assert (of_one["all"]["all"]["mean"], of_one["all"]["clean"]["mean"]) == (pytest.approx(2 / 3), 0.5)
    assert (of_one["level=1"]["exact"], of_one["level=1"]["clean"]["mean"]) == (1, 0.0)
    assert of_one["level=2"]["clean"]["mean"] == 1.0
    metrics = caveat_metrics("one", "cell", found, {})
    assert (metrics["contamination/test/exact"], metrics["contamination/test/clean"]) == (1.0, 0.5)


def test_tasks_that_were_not_evaluated_are_not_counted(monkeypatch):
    tests = [make_task(name, name, split="test") for name in "abc"]
    tasks = Held(make_task_set(*tests, make_task("t", "C"), make_task("u", "A")))  # a and c are among the train tasks
    monkeypatch.setattr(
        module, "find_contamination", lambda given, splits, *_, id: Held(compare_splits(given.load(), splits))
    )
    report = EvaluationReport("test", "p", 1, {}, {"accuracy": {"a": 1.0, "b": 0.0}}, groups={"a": "a", "b": "b"})
    each = SimpleNamespace(evaluation=Evaluation({"test": report}), tasks=tasks)
    test = suite_contamination(suite(), {"cell": tasks}, {"cell": {"one": each}})["cell"]["test"]
    assert (test["tasks"], test["clean"], test["exact"]) == (2, 1, 1)
    assert test["sentence"].startswith("Of the 2 tasks of `test`, 1 ")

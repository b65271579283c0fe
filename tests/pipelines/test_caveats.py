"""What is noted beside a result, with stages that hold their results."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlops.summary.summary import Summary
from pipelines import beside
from pipelines.arms import Arms, Starts
from pipelines.beside import FROM_SCRATCH, Ended, contamination, forgetting
from pipelines.showing import unshown
from rlft.config import Config
from rlft.evaluation.forgetting import TextBits
from rlft.tasks.contamination import ContaminationReport, Overlap
from rlft.types import Evaluation, EvaluationReport

BITS = {
    "base": TextBits({"code": (1.0, 2.0)}, {"german": "why"}),
    "warm_start": TextBits({"code": (1.0, 2.5)}),
    "trained": TextBits({"code": (1.5, 2.5)}, {"german": "why"}),
}


class Held:
    def __init__(self, value):
        self.value = value

    def load(self):
        return self.value


class FakeTracker:
    def __init__(self):
        self.metrics, self.files = {}, {}

    def log_metrics(self, metrics, step):
        assert step == 0
        self.metrics |= metrics

    def log_json(self, name, content):
        self.files[name] = content


def config(**changes) -> Config:
    fields = {
        "name": "n",
        "tasks": {"source": "jsonl", "path": "t.jsonl", "prompt": "q"},
        "environment": {"name": "e.py:E"},
        "policy": {"model": "m"},
    }
    return Config.model_validate(fields | changes)


@pytest.fixture
def noted(monkeypatch):
    def run(settings: Config, asked: list[str]) -> SimpleNamespace:
        def measure(policy: str, device: str, texts: str, *, id: str) -> Held:
            name = id.removeprefix("measure_forgetting_")
            asked.append(f"{policy} as {name}")
            return Held(BITS[name])

        monkeypatch.setattr(beside, "measure_forgetting", measure)
        record = SimpleNamespace(tracker=FakeTracker(), summary=Summary(status="running"))
        stages = SimpleNamespace(config=settings, show=unshown)
        starts, rounds = Starts("BASE", "START", None), SimpleNamespace(best="BEST")
        forgetting(Ended(stages, "TASKS", starts, rounds, None, record))
        return record

    return run


def test_what_training_cost_is_measured_from_the_base_model_to_the_trained_one(noted):
    asked: list[str] = []
    record = noted(config(warm_start={"steps": 1}), asked)
    assert asked == ["BASE as base", "START as warm_start", "BEST as trained"]
    change = record.summary.forgetting["code"]
    assert (change.before, change.warm_start, change.after, change.verdict) == (1.5, 1.75, 2.0, "cost")
    said = record.summary.forgetting_sentences
    assert said[0].startswith("Training cost 0.500 bits per byte")
    assert said[1] == "Nothing is known about `german`: why."
    asked.clear()
    assert noted(config(evaluation={"forgetting_margin": 0.6}), asked).summary.forgetting["code"].verdict == "kept"
    assert asked == ["BASE as base", "BEST as trained"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evaluation": {"forgetting": False}}, []),
        ({"policy": {"from_scratch": {"characters": "ab", "max_position_embeddings": 4096}}}, [FROM_SCRATCH]),
    ],
)
def test_what_is_not_measured(noted, changes, said):
    asked: list[str] = []
    record = noted(config(**changes), asked)
    assert (asked, record.summary.forgetting, record.summary.forgetting_sentences) == ([], {}, said)


@pytest.mark.parametrize("found", [True, False])
def test_tasks_that_are_not_new_are_noted_with_the_score_of_the_others(found, monkeypatch):
    overlap = Overlap("exact", "train", "t7", "some words")
    report = ContaminationReport({"test": ("a", "b")}, {"a": overlap} if found else {}, {"train": 3})

    def evaluation(score: float) -> Held:
        scores = {"accuracy": {"a": score, "b": 1.0}}
        return Held(Evaluation({"test": EvaluationReport("test", "p", 1, {}, scores)}))

    arms = Arms(evaluation(0.0), None, {}, Held(None), evaluation(1.0), None, {})
    record = SimpleNamespace(tracker=FakeTracker(), summary=Summary(status="running"))
    monkeypatch.setattr(beside, "find_contamination", lambda *given: Held(report))
    stages = SimpleNamespace(config=config().comparing("accuracy"), show=unshown)
    contamination(Ended(stages, "TASKS", None, None, arms, record))
    section = record.summary.contamination["test"]
    assert (section.exact, section.clean.tasks, section.clean.mean) == (int(found), 2 - found, 1.0)
    assert section.clean_difference.mean == (0.0 if found else 0.5)
    assert ("contamination.json" in record.tracker.files) == found
    if found:
        told = record.tracker.files["contamination.json"]["a"]
        assert told == {"kind": "exact", "source": "train", "other": "t7", "words": "some words"}

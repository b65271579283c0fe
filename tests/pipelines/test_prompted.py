"""Which prompted controls a run has, what they may spend, and what is kept of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipelines import controls
from pipelines.controls import prompted_controls
from pipelines.showing import unshown
from rlft.config import EvaluationConfig, ModelControl
from rlft.controls.few_shot import PromptReport, PromptTrial
from rlft.environments.fingerprints import EnvironmentFingerprints
from rlft.harness.examples import Example, Examples

EXAMPLES = Examples(form="text", shown=[Example(prompt=[{"role": "user", "content": "q"}], turns=[])])
REPORT = PromptReport(9.0, 4.0, 0.5, "accuracy", (), PromptTrial(1, "text", 0.5), EXAMPLES.model_dump())


class FakeStages:
    """Holds what of a config the controls read."""

    show = staticmethod(unshown)
    fingerprints = EnvironmentFingerprints("a", "b")

    def __init__(self, controls):
        self.config = SimpleNamespace(
            wants_control=lambda name: controls is None or name in controls,
            other_model=next((each for each in controls or () if isinstance(each, ModelControl)), None),
            policy=SimpleNamespace(device="cpu"),
            warm_start=None,
            environment=None,
            reward=None,
            evaluation=EvaluationConfig(),
        )

    def validation(self):
        return None


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What the step was told, which chooses the same prompt for each policy: the policy, the FLOPs, the id."""
    calls = []

    def choose(policy, *given, id):
        calls.append((policy, *given[-2:], id))
        return SimpleNamespace(load=lambda: REPORT)

    monkeypatch.setattr(controls, "choose_prompt", choose)
    return calls


class FakeTracker:
    def __init__(self):
        self.json, self.metrics = {}, {}

    def log_json(self, name, content):
        self.json[name] = content

    def log_metrics(self, metrics, step):
        self.metrics |= metrics

    def log_curves(self, curves):
        self.curves = curves


def made(stages, tracker=None, other=None, without=()):
    rounds = SimpleNamespace(flops=lambda: 9.0, validation_flops=lambda: 2.0)
    tasks = SimpleNamespace(load=lambda: None)
    return prompted_controls(stages, "base", other, tasks, rounds, tracker or FakeTracker(), without)


@pytest.mark.parametrize("controls", [None, ["few_shot"], ["sft", "few_shot"]])
def test_the_base_model_gets_examples_within_the_flops_of_the_rounds(controls, told):
    stages, tracker = FakeStages(controls), FakeTracker()
    (found,) = made(stages, tracker).items()
    assert (found[0], found[1].policy, found[1].examples) == ("few_shot", "base", EXAMPLES)
    assert told == [("base", 9.0, 2.0, "choose_prompt_few_shot")]
    assert tracker.json["controls/few_shot.json"]["chosen"] == {
        "examples": 1, "form": "text", "validation": 0.5, "left_out": "", "answers": "",
    }  # fmt: skip
    assert tracker.metrics == {
        "few_shot_control/flops": 4.0, "few_shot_control/budget_flops": 9.0, "few_shot_control/seconds": 0.5,
    }  # fmt: skip


def test_a_control_may_be_unwanted():
    for unwanted in ([], ["sft"]):
        assert made(FakeStages(unwanted)) == {}
    assert made(FakeStages(None), without=["few_shot"]) == {}  # it does not apply


def test_another_model_has_a_prompt_of_its_own_even_if_the_base_model_has_none(told):
    (found,) = made(FakeStages([ModelControl(model="b")]), other="other", without=["few_shot"]).items()
    assert (found[0], found[1].policy, found[1].examples) == ("model", "other", EXAMPLES)
    assert told == [("other", 9.0, None, "choose_prompt_model")]


def test_a_model_behind_an_address_has_no_budget_of_flops_and_tells_its_tokens(told, monkeypatch):
    asked = replace(REPORT, budget=None, spent=None, prompt_tokens=120, completion_tokens=None)
    monkeypatch.setattr(sys.modules[__name__], "REPORT", asked)
    tracker = FakeTracker()
    controls = ["few_shot", ModelControl(model="b", endpoint="http://127.0.0.1:9/v1")]
    assert set(made(FakeStages(controls), tracker, other="other")) == {"few_shot", "model"}
    # What it was asked for must not follow from the FLOPs of the rounds: they would have it asked again.
    assert told == [("base", 9.0, 2.0, "choose_prompt_few_shot"), ("other", None, None, "choose_prompt_model")]
    named = {name: value for name, value in tracker.metrics.items() if name.startswith("model_control")}
    assert named == {"model_control/seconds": 0.5, "model_control/prompt_tokens": 120.0}
    assert tracker.json["controls/model.json"]["budget"] is None

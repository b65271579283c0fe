"""The arms of a run have the same keys wherever they stand, and are evaluated without a tracker, too."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import get_args

from mlops.summary.summary import Summary
from mlops.summary.verdict import ARMS, LABELS
from pipelines import arms as arms_of
from pipelines.arms import FINAL_SPLITS, Arms, Starts, evaluate_arms
from pipelines.controls import left_out_controls
from pipelines.showing import unshown
from rlft.config import ControlName
from rlft.errors import TrackerError


def test_every_arm_has_a_key_in_the_summary_and_a_row_in_the_terminal_and_every_control_a_label():
    keys = [
        field.name for field in fields(Arms) if field.name not in ("constant", "reports", "left_out")
    ]  # part of the controls
    assert keys == [key for key in Summary.model_fields if key in keys]
    assert keys == [key for key, _ in ARMS]
    assert set(LABELS) == {"constant", "model", *get_args(ControlName)}


class FakeStages:
    """Evaluates by name, and says what it was asked for."""

    config = SimpleNamespace(
        environments={},
        warm_start=None,
        policy=SimpleNamespace(model="a"),
        wants_control=lambda name: name == "few_shot",
    )

    def __init__(self):
        self.evaluated = []

    show = staticmethod(unshown)

    def has_demonstrations(self, tasks):
        return False

    def evaluate(self, policy, tasks, splits, name, examples=None):
        assert splits == FINAL_SPLITS
        self.evaluated.append(name)
        return f"{name} of {policy}" + (f" with {examples}" if examples else "")

    def constant(self, tasks, said, splits):
        assert splits == FINAL_SPLITS
        return f"best of {said}"


def evaluated(stages, find_champion):
    rounds = SimpleNamespace(best="best", often_said=lambda: ["?"])
    tasks = SimpleNamespace(load=lambda: "tasks")
    return evaluate_arms(stages, tasks, Starts("base", "base", None), rounds, find_champion, None, "home")


def test_controls_are_evaluated_as_all_arms_are_the_prompted_ones_with_their_examples(monkeypatch):
    asked = {}
    monkeypatch.setattr(arms_of, "make_controls", lambda *given: {"sft": ("imitator", "its report")})
    prompted = SimpleNamespace(policy="base", report="its prompts", examples="two examples")
    monkeypatch.setattr(
        arms_of, "prompted_controls", lambda *given: asked.update(without=given[-1]) or {"few_shot": prompted}
    )
    arms, _ = evaluated(FakeStages(), lambda: None)
    assert arms.controls == {
        "sft": "sft_control of imitator",
        "few_shot": "few_shot_control of base with two examples",
    }
    assert arms.reports == {"sft": "its report", "few_shot": "its prompts"}
    assert arms.left_out == asked["without"] == {"few_shot": "no train task has a gold answer to show"}


def test_a_champion_that_cannot_be_looked_up_holds_up_no_evaluation():
    stages, away = FakeStages(), TrackerError("away")
    arms, found = evaluated(stages, lambda: (_ for _ in ()).throw(away))
    assert found.unknown is away
    assert (arms.champion, arms.final, arms.constant) == (None, "trained of best", "best of ['?']")
    assert stages.evaluated == ["base", "trained"]


def test_a_champion_that_cannot_be_fetched_holds_up_none_either(monkeypatch):
    stages, away = FakeStages(), TrackerError("away")
    monkeypatch.setattr(arms_of, "fetch_champion", lambda *_: (_ for _ in ()).throw(away))
    champion = SimpleNamespace(name="n", version="1", weights_hash="h", run_id="r")
    assert evaluated(stages, lambda: champion)[1].unknown is away
    monkeypatch.setattr(arms_of, "fetch_champion", lambda *given: "/".join(given))
    arms, found = evaluated(stages, lambda: champion)
    assert (arms.champion, found.unknown, found.run_id) == ("champion of home/n/1/h", None, "r")
    assert evaluated(stages, lambda: None)[0].champion is None  # before the first promotion


def test_answers_of_one_environment_are_not_shown_before_the_prompts_of_another():
    config = SimpleNamespace(
        environments={"sums": None, "words": None},
        policy=SimpleNamespace(model="a"),
        wants_control=lambda name: True,
    )
    stages = SimpleNamespace(config=config, has_demonstrations=lambda tasks: True)
    said = left_out_controls(stages, SimpleNamespace(load=lambda: None))
    assert list(said) == ["few_shot"]
    assert "several environments" in said["few_shot"]

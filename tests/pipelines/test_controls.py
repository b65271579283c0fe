"""pipelines.controls: which trained controls a run has, and what is said of those that do not apply."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines import controls
from pipelines.controls import CONTROLS, left_out_controls, make_controls
from rlft.config import Config

NO_GOLD = "no train task has a gold answer"
RANDOM = {"from_scratch": {"characters": "ab", "max_position_embeddings": 512}}


class FakeStages:
    """The config of a run, and whether its tasks have gold answers."""

    def __init__(self, wanted, policy, *, gold=True):
        self.gold = gold
        self.config = Config.model_validate(
            {
                "name": "some",
                "tasks": {"source": "jsonl", "path": "rows.jsonl"},
                "environment": {"name": "a:B"},
                "policy": policy,
                "controls": wanted,
            }
        )

    def has_demonstrations(self, tasks):
        return self.gold


TASKS = SimpleNamespace(load=lambda: "tasks")


@pytest.mark.parametrize(
    ("wanted", "policy", "gold", "left_out"),
    [
        (None, {"model": "a"}, True, {}),
        (None, {"model": "a"}, False, {"sft": NO_GOLD, "few_shot": f"{NO_GOLD} to show"}),
        (["rejection_sampling"], {"model": "a"}, False, {}),  # nobody asked for the others
        (["few_shot"], {"model": "a"}, False, {"few_shot": f"{NO_GOLD} to show"}),
    ],
)
def test_what_does_not_apply_is_named_with_the_reason_if_it_is_wanted(wanted, policy, gold, left_out):
    assert left_out_controls(FakeStages(wanted, policy, gold=gold), TASKS) == left_out


def test_random_weights_are_the_reason_for_no_examples():
    (name, reason), *more = left_out_controls(FakeStages(None, RANDOM), TASKS).items()
    assert (name, more) == ("few_shot", [])
    assert "began with random weights" in reason


@pytest.mark.parametrize(
    ("wanted", "without", "made"),
    [
        (None, (), ["sft", "rejection_sampling"]),
        (None, ("sft",), ["rejection_sampling"]),
        (["sft"], (), ["sft"]),
        ([], (), []),
    ],
)
def test_the_controls_that_are_wanted_and_apply_are_trained_and_logged(wanted, without, made, monkeypatch):
    logged = []
    monkeypatch.setattr(controls, "log_control", lambda tracker, name, report: logged.append((name, report)))
    fakes = [
        controls.Control(each.name, lambda *given, name=each.name: (name, SimpleNamespace(load=lambda: f"of {name}")))
        for each in CONTROLS
    ]
    monkeypatch.setattr(controls, "CONTROLS", fakes)
    found = make_controls(FakeStages(wanted, {"model": "a"}), "start", TASKS, None, None, without)
    assert found == {name: (name, f"of {name}") for name in made}
    assert logged == [(name, f"of {name}") for name in made]

"""Which arms a run has and by which terms they are made; all are evaluated alike, without a tracker, too."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import pytest

from mlops.summary.summary import Summary
from mlops.summary.verdict import ROWS
from pipelines import arms as arms_of
from pipelines.arms import FINAL_SPLITS, Arms, Starts, arms_left_out, evaluate_arms
from pipelines.showing import unshown
from rlft.config import Config, RewardConfig
from rlft.errors import TrackerError
from rlft.evaluation.searches.prompts import PromptReport, PromptTrial
from rlft.evaluation.searches.validator import ControlReport, Validation
from rlft.harness.attempt import Example, Examples
from rlft.harness.rollout import SamplingSettings

NO_GOLD = "no train task has a gold answer"
RANDOM = {"from_scratch": {"characters": "ab", "max_position_embeddings": 512}}
ASKED = {"model": "b", "endpoint": "http://127.0.0.1:9/v1"}
EXAMPLES = Examples(form="text", shown=[Example(prompt=[{"role": "user", "content": "q"}], turns=[])])
PROMPTED = PromptReport(9.0, 4.0, 0.5, "accuracy", (), PromptTrial(1, "text", 0.5), EXAMPLES.model_dump())
TRAINED = ControlReport(9.0, 8.0, 0.5, 3, "accuracy")
TASKS = SimpleNamespace(load=lambda: "tasks")
ROUNDS = SimpleNamespace(
    best="best", reports=[0, 1], often_said=lambda: ["?"], flops=lambda: 9.0, validation_flops=lambda: 2.0
)


class FakeStages:
    """The config of a run, and whether its tasks have gold answers; evaluates by name."""

    show = staticmethod(unshown)

    def __init__(self, controls, policy=None, *, gold=True, **more):
        self.gold, self.evaluated = gold, []
        settings = {
            "name": "some",
            "tasks": {"source": "jsonl", "path": "rows.jsonl"},
            "environment": {"name": "a:B"},
            "policy": policy or {"model": "a"},
            "controls": controls,
        }
        self.config = Config.model_validate({**settings, **more})

    def has_demonstrations(self, tasks):
        return self.gold

    def sampling(self, temperature):
        return SamplingSettings(temperature=temperature, max_completion_length=2, batch_size=1, seed=0)

    def validation(self):
        config = self.config
        return Validation(
            environment=config.environment,
            reward=RewardConfig(),
            sampling=self.sampling(0.0),
            num_generations=1,
            metric="accuracy",
            fingerprint="",
        )

    def evaluate(self, policy, tasks, splits, name, examples=None):
        assert splits == FINAL_SPLITS
        self.evaluated.append(name)
        return f"{name} of {policy}" + (" with examples" if examples else "")

    def constant(self, tasks, said, splits):
        assert splits == FINAL_SPLITS
        return f"best of {said}"


class FakeTracker:
    def __init__(self):
        self.json, self.metrics = {}, {}

    def log_json(self, name, content):
        self.json[name] = content

    def log_metrics(self, metrics, step):
        self.metrics |= metrics

    def log_curves(self, curves):
        self.curves = curves


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """What both steps were given, by the id of the call."""
    calls = {}

    def train(policy, tasks, arm, settings, terms, validation, device, *, id):
        calls[id] = policy, settings, terms
        return f"trained {policy}", SimpleNamespace(load=lambda: TRAINED)

    def choose(policy, tasks, arm, settings, terms, validation, device, *, id):
        calls[id] = policy, settings, terms
        return SimpleNamespace(load=lambda: PROMPTED)

    monkeypatch.setattr(arms_of, "train_arm", train)
    monkeypatch.setattr(arms_of, "choose_prompt", choose)
    return calls


def evaluated(stages, find_champion=lambda: None, tracker=None):
    starts = Starts("base", "start", "other")
    return evaluate_arms(stages, TASKS, starts, ROUNDS, find_champion, tracker or FakeTracker(), "home")


def test_every_arm_has_a_key_in_the_summary_and_a_row_in_the_terminal():
    keys = [field.name for field in fields(Arms) if field.name not in ("constant", "reports", "left_out")]
    assert keys == [key for key in Summary.model_fields if key in keys]
    assert keys == [key for key, _ in ROWS]


@pytest.mark.parametrize(
    ("wanted", "gold", "left_out"),
    [
        (None, True, {}),
        (None, False, {"sft": NO_GOLD, "few_shot": f"{NO_GOLD} to show"}),
        (["rejection_sampling"], False, {}),  # nobody asked for the others
        (["few_shot"], False, {"few_shot": f"{NO_GOLD} to show"}),
    ],
)
def test_what_does_not_apply_is_named_with_the_reason_if_it_is_wanted(wanted, gold, left_out):
    assert arms_left_out(FakeStages(wanted, gold=gold), TASKS) == left_out


def test_random_weights_learn_nothing_from_their_prompt():
    (name, reason), *more = arms_left_out(FakeStages(None, RANDOM), TASKS).items()
    assert (name, more) == ("few_shot", [])
    assert "began with random weights" in reason


def test_each_arm_begins_with_its_model_and_is_evaluated_with_what_it_reads(made):
    stages, tracker = FakeStages(["few_shot", {"model": "b"}, "sft"]), FakeTracker()
    arms, _ = evaluated(stages, tracker=tracker)
    assert arms.controls == {
        "sft": "sft_control of trained start",
        "few_shot": "few_shot_control of base with examples",
        "model": "model_control of other with examples",
    }
    assert arms.reports == {"sft": TRAINED, "few_shot": PROMPTED, "model": PROMPTED}
    assert stages.evaluated[-2:] == ["base", "trained"]
    budgets = {id: (terms.flops, terms.validation_flops, terms.rounds) for id, (_, _, terms) in made.items()}
    assert budgets == {
        "sft_control": (9.0, 2.0, 2),
        "choose_prompt_few_shot": (9.0, 2.0, 2),
        "choose_prompt_model": (9.0, None, 2),  # another model has another size
    }
    assert tracker.json["controls/few_shot.json"]["chosen"]["examples"] == 1
    assert tracker.metrics["sft_control/flops"] == 8.0
    assert tracker.metrics["few_shot_control/budget_flops"] == 9.0


def test_what_a_model_behind_an_address_is_asked_does_not_follow_from_the_rounds(made):
    evaluated(FakeStages([ASKED]))
    _, settings, terms = made["choose_prompt_model"]
    assert settings == {"model": "b"}
    assert (terms.flops, terms.validation_flops, terms.training, terms.sampling, terms.rounds) == (None,) * 4 + (0,)


def test_a_champion_that_cannot_be_looked_up_or_fetched_holds_up_no_evaluation(monkeypatch):
    stages, away = FakeStages([]), TrackerError("away")

    def fail(*given):
        raise away

    arms, found = evaluated(stages, fail)
    assert found.unknown is away
    assert (arms.champion, arms.final, arms.constant) == (None, "trained of best", "best of ['?']")
    assert stages.evaluated == ["base", "trained"]
    monkeypatch.setattr(arms_of, "fetch_champion", fail)
    champion = SimpleNamespace(name="n", version="1", weights_hash="h", run_id="r")
    assert evaluated(stages, lambda: champion)[1].unknown is away
    monkeypatch.setattr(arms_of, "fetch_champion", lambda *given: "/".join(given))
    arms, found = evaluated(stages, lambda: champion)
    assert (arms.champion, found.unknown, found.run_id) == ("champion of home/n/1/h", None, "r")
    assert evaluated(stages)[0].champion is None  # before the first promotion

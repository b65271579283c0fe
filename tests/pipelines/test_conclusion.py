"""The arms of a run have the same keys wherever they stand, and are evaluated without a tracker, too."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import get_args

import pytest

from mlops.runs.lineage import outcome_of
from mlops.summary.arms import promotion_section
from mlops.summary.controls import LABELS
from mlops.summary.summary import Summary
from mlops.summary.verdict import ARMS
from pipelines import conclusion
from pipelines.conclusion import FINAL_SPLITS, Arms, Starts, evaluate_arms, promote
from pipelines.controls import left_out_controls
from pipelines.rounds import Rounds
from pipelines.showing import unshown
from rlft.config import ControlName
from rlft.errors import TrackerError
from rlft.monitors import Alarm
from rlft.promotion import Decision, RegisteredVersion
from rlft.types import Interval


def test_every_arm_has_a_key_in_the_summary_and_a_row_in_the_terminal_and_every_control_a_label():
    keys = [
        field.name for field in fields(Arms) if field.name not in ("constant", "reports", "left_out")
    ]  # part of the controls
    assert keys == [key for key in Summary.model_fields if key in keys]
    assert keys == [key for key, _ in ARMS]
    assert set(LABELS) == {"constant", "model", *get_args(ControlName)}


REPEATS = Alarm("repetition", "stop", 4, "It repeats.", "Bound it.")


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
    monkeypatch.setattr(conclusion, "make_controls", lambda *given: {"sft": ("imitator", "its report")})
    prompted = SimpleNamespace(policy="base", report="its prompts", examples="two examples")
    monkeypatch.setattr(
        conclusion, "prompted_controls", lambda *given: asked.update(without=given[-1]) or {"few_shot": prompted}
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
    monkeypatch.setattr(conclusion, "fetch_champion", lambda *_: (_ for _ in ()).throw(away))
    champion = SimpleNamespace(name="n", version="1", weights_hash="h", run_id="r")
    assert evaluated(stages, lambda: champion)[1].unknown is away
    monkeypatch.setattr(conclusion, "fetch_champion", lambda *given: "/".join(given))
    arms, found = evaluated(stages, lambda: champion)
    assert (arms.champion, found.unknown, found.run_id) == ("champion of home/n/1/h", None, "r")
    assert evaluated(stages, lambda: None)[0].champion is None  # before the first promotion


def test_a_policy_without_a_run_to_register_it_under_is_not_decided_on():
    tracker = SimpleNamespace(run_id=None, where="http://x")
    with pytest.raises(TrackerError, match="the run could not be opened there"):
        promote(FakeStages(), "tasks", None, None, None, tracker, "home", {}, {})


@pytest.mark.parametrize("champion", [conclusion.Champion(), conclusion.Champion("policy", "run", "7", "hash")])
def test_a_version_is_registered_with_what_its_decision_rested_on(monkeypatch, champion):
    given = []
    monkeypatch.setenv("RLFT_TRACKING_URI", "sqlite:///x")
    monkeypatch.setattr(conclusion, "registry_name", lambda config: "name")
    monkeypatch.setattr(conclusion, "ask_about", lambda *_: (SimpleNamespace(number=3, spent=0.1), [], "rlft.look.g.a"))
    asked = []
    decide = lambda *all_of_it: asked.extend(all_of_it) or SimpleNamespace(load=lambda: "decision")  # noqa: E731
    monkeypatch.setattr(conclusion, "decide_promotion", decide)
    register = lambda *all_of_it: given.extend(all_of_it) or SimpleNamespace(load=lambda: "version")  # noqa: E731
    monkeypatch.setattr(conclusion, "register_policy", register)
    stages = FakeStages()
    stages.config = SimpleNamespace(
        promotion=SimpleNamespace(approval="required"),
        evaluation=SimpleNamespace(metric="accuracy"),
        reward=SimpleNamespace(audit=True),
        rollout=SimpleNamespace(max_completion_length=9),
        model_dump=lambda **_: {"name": "tiny"},
    )
    stages.fingerprints = SimpleNamespace(harness="h", reward="r")
    report = SimpleNamespace(metrics={"accuracy": Interval(0.75, 0.5, 1.0, 20)})
    splits = SimpleNamespace(load=lambda: SimpleNamespace(splits={"gate": report}))
    arms = SimpleNamespace(final=splits, base=splits, warm_start=None, champion=None, constant=None)
    tasks = SimpleNamespace(load=lambda: SimpleNamespace(split=lambda name: []))
    tracker, rounds = SimpleNamespace(run_id="id"), Rounds("best", alarms={"repetition": REPEATS})
    assert promote(stages, tasks, arms, champion, rounds, tracker, "home", {"a": "b"}, {"summary": {}}) == (
        "decision",
        "version",
    )
    assert asked[-2:] == [True, "repetition"]  # of the audit, and of the monitor that was to stop the run
    assert given[-9:] == [{"name": "tiny"}, {"summary": {}}, tasks, splits, splits, None, None, None, False]
    assert given[-10] == {
        "a": "b",
        "rlft.compared.version": champion.version,
        "rlft.compared.weights_hash": champion.weights_hash,
        "rlft.decided_at": "rlft.look.g.a",
        "rlft.score.accuracy": "0.75",
    }


def test_a_version_that_was_taken_back_is_not_called_promoted_when_it_is_decided_on_again():
    passed, back = Decision(True, ("passes: base",)), RegisteredVersion("my model", "4", None, ("challenger",))
    assert promotion_section(passed, back, "my model").promoted  # at the end of its run another may be champion already
    found = promotion_section(passed, back, "my model", anew=True)
    assert (found.promoted, found.alias) == (False, "challenger")
    assert "`rlft rollback 'my model' --to 4 --reason TEXT` brings it back" in found.reasons[-1]
    now = RegisteredVersion("my model", "4", None, ("champion",))
    assert promotion_section(passed, now, "my model", anew=True).promoted


@pytest.mark.parametrize(
    ("promote", "approval", "withheld", "expected"),
    [
        (True, "", "", (True, "champion", None, "promoted")),
        (True, "pending", "", (False, "challenger", "pending", "pending")),
        (True, "approved", "", (True, "champion", "approved", "promoted")),  # a resume after the approval
        (True, "rejected", "", (False, "challenger", "rejected", "rejected")),
        (True, "", "its rival was taken back", (False, "challenger", None, "rejected")),
        (False, "", "", (False, "challenger", None, "rejected")),
    ],
)
def test_the_summary_says_what_waits_and_what_was_withheld(promote, approval, withheld, expected):
    version = RegisteredVersion("my model", "4", None, ("challenger",), approval, withheld)
    found = promotion_section(Decision(promote, ("passes: base",)), version, "my model")
    outcome = outcome_of(Summary(status="improved", promotion=found))
    assert (found.promoted, found.alias, found.approval, outcome) == expected
    said = "\n".join(found.reasons)
    assert ("rlft approve 'my model' 4" in said) is (approval == "pending")
    assert ("its rival was taken back" in said) is bool(withheld)


def test_a_version_that_was_withheld_and_is_decided_on_again_has_the_reasons_of_that_decision():
    version = RegisteredVersion("m", "2", None, ("challenger",), "", "`rlft promote m` compares it")
    worse = promotion_section(Decision(False, ("fails: champion",)), version, "m", anew=True)
    assert worse.reasons == ["fails: champion"]  # it was compared now, and is no better
    for decision, anew in ((Decision(True, ("passes: champion",)), True), (Decision(False, ("fails: base",)), False)):
        assert promotion_section(decision, version, "m", anew=anew).reasons[-1].endswith("`rlft promote m` compares it")


def test_the_summary_of_a_version_that_waits_notes_a_better_one():
    version = RegisteredVersion("m", "4", None, ("challenger",), "pending", note="note: version 2 had more")
    assert promotion_section(Decision(True, ()), version, "m").reasons[-1] == "note: version 2 had more"


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

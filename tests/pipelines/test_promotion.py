"""A trained policy is registered with what its decision rested on, and the summary says what came of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mlops.summary.arms import promotion_section
from pipelines import conclusion
from pipelines.arms import Champion
from pipelines.conclusion import decide_and_register
from pipelines.rounds import Rounds
from pipelines.showing import unshown
from rlft.errors import TrackerError
from rlft.evaluation.diagnosis.monitors import Alarm
from rlft.evaluation.promotion import Decision, Known, RegisteredVersion
from rlft.types import Interval

REPEATS = Alarm("repetition", "stop", 4, "It repeats.", "Bound it.")


def test_a_policy_without_a_run_to_register_it_under_is_not_decided_on():
    seen = SimpleNamespace(tracker=SimpleNamespace(run_id=None, where="http://x"))
    with pytest.raises(TrackerError, match="the run could not be opened there"):
        decide_and_register(SimpleNamespace(config=None), "tasks", None, None, None, seen, "home")


@pytest.mark.parametrize("champion", [Champion(), Champion("policy", "run", "7", "hash")])
def test_a_version_is_registered_with_what_its_decision_rested_on(monkeypatch, champion):
    given = []
    monkeypatch.setenv("RLFT_TRACKING_URI", "sqlite:///x")
    monkeypatch.setattr(conclusion, "ask_about", lambda *_: (SimpleNamespace(number=3, spent=0.1), [], "rlft.look.g.a"))
    asked = []
    decide = lambda *all_of_it: asked.extend(all_of_it) or SimpleNamespace(load=lambda: "decision")  # noqa: E731
    monkeypatch.setattr(conclusion, "decide_promotion", decide)
    register = lambda *all_of_it: given.extend(all_of_it) or SimpleNamespace(load=lambda: "version")  # noqa: E731
    monkeypatch.setattr(conclusion, "register_policy", register)
    config = SimpleNamespace(
        registry_name="name",
        promotion=SimpleNamespace(approval="required"),
        evaluation=SimpleNamespace(metric="accuracy"),
        reward=SimpleNamespace(audit=True),
        rollout=SimpleNamespace(max_completion_length=9),
        model_dump=lambda **_: {"name": "tiny"},
    )
    fingerprints = SimpleNamespace(harness="h", reward="r")
    stages = SimpleNamespace(config=config, fingerprints=fingerprints, show=unshown)
    report = SimpleNamespace(policy="p", metrics={"accuracy": Interval(0.75, 0.5, 1.0, 20)})
    splits = SimpleNamespace(load=lambda: SimpleNamespace(splits={"gate": report}))
    arms = SimpleNamespace(final=splits, base=splits, warm_start=None, champion=None, constant=None)
    tasks = SimpleNamespace(load=lambda: SimpleNamespace(split=lambda name: []))
    summary = SimpleNamespace(model_dump=lambda **_: {"status": "improved"})
    attempt = SimpleNamespace(tags={"a": "b"}, code={"commit": "c"})
    seen = SimpleNamespace(tracker=SimpleNamespace(run_id="id"), attempt=attempt, summary=summary, audit=None)
    rounds = Rounds("best", alarms={"repetition": REPEATS})
    assert decide_and_register(stages, tasks, arms, champion, rounds, seen, "home") == ("decision", "version")
    assert asked[5] == Known(look=3, spent=0.1, champion_knows=[], audit=True, monitor="repetition")
    assert given[3:] == [tasks, splits, splits, None, None, None]
    assert (given[2].config, given[2].anew) == ({"name": "tiny"}, False)
    assert given[2].told == {"summary": {"status": "improved"}, "audit": None, "code": {"commit": "c"}}
    assert given[2].tags == {
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
        (True, "", "", (True, "champion", None)),
        (True, "pending", "", (False, "challenger", "pending")),
        (True, "approved", "", (True, "champion", "approved")),  # a resume after the approval
        (True, "rejected", "", (False, "challenger", "rejected")),
        (True, "", "its rival was taken back", (False, "challenger", None)),
        (False, "", "", (False, "challenger", None)),
    ],
)
def test_the_summary_says_what_waits_and_what_was_withheld(promote, approval, withheld, expected):
    version = RegisteredVersion("my model", "4", None, ("challenger",), approval, withheld)
    found = promotion_section(Decision(promote, ("passes: base",)), version, "my model")
    assert (found.promoted, found.alias, found.approval) == expected
    said = "\n".join(found.reasons)
    assert ("rlft approve 'my model' 4" in said) is (approval == "pending")
    assert ("its rival was taken back" in said) is bool(withheld)


def test_a_version_that_was_withheld_and_is_decided_on_again_has_the_reasons_of_that_decision():
    version = RegisteredVersion("m", "2", None, ("challenger",), "", "`rlft promote m` compares it")
    worse = promotion_section(Decision(False, ("fails: champion",)), version, "m", anew=True)
    assert worse.reasons == ["fails: champion"]  # it was compared now, and is no better
    for decision, anew in ((Decision(True, ("passes: champion",)), True), (Decision(False, ("fails: base",)), False)):
        assert promotion_section(decision, version, "m", anew=anew).reasons[-1].endswith("`rlft promote m` compares it")

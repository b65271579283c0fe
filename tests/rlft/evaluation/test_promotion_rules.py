from dataclasses import replace

import pytest

from rlft.config import PromotionConfig
from rlft.evaluation.promotion import Known, decide_promotion
from rlft.types import Evaluation
from tests.rlft.evaluation.test_promotion import report

TASKS = 200


def suite(**solved):
    """{arm: report of off_distribution}, by how many of 200 tasks each solves."""
    return {name: report(name, count, tasks=TASKS, split="off_distribution") for name, count in solved.items()}


def decide(*, champion=False, trained=None, rules=None, suite=None, looks=1, slices=None, **known):
    arms = {"trained": trained or report("trained", 180, tasks=TASKS)}
    solved = {"warm_start": 100, "base": 60} | ({"champion": 100} if champion else {})
    arms |= {name: report(name, count, tasks=TASKS) for name, count in solved.items()}
    beside = {} if suite is None else {name: {"off_distribution": each} for name, each in suite.items()}
    evaluations = {name: Evaluation({"gate": each} | beside.get(name, {})) for name, each in arms.items()}
    rules = PromotionConfig.model_validate({"looks": looks} | (rules or {}))
    return decide_promotion(evaluations, "accuracy", rules, Known(**known), slices or {})


def test_without_rules_nothing_else_is_asked():
    found = decide()
    assert found.promote
    assert found.rules == {"improvement": "passes"}


def test_a_monitor_that_was_to_stop_the_run_keeps_its_model_from_being_promoted():
    found = decide(monitor="overoptimization")
    assert not found.promote
    assert found.rules == {"improvement": "passes", "monitors": "fails"}
    assert found.reasons[-1] == (
        "fails: the monitor overoptimization has seen that the reward may pay what is not wanted "
        "(monitors.overoptimization)"
    )


OFF = {"suites": {"off_distribution": {"margin": 0.05}}}


def test_a_suite_that_is_held_passes_against_every_rival():
    found = decide(rules=OFF, suite=suite(trained=100, base=100, warm_start=98, champion=99), champion=True)
    assert found.promote
    assert found.rules == {"improvement": "passes", "suites": "passes"}
    said = [reason for reason in found.reasons if "on off_distribution" in reason]
    assert len(said) == 3
    base = next(reason for reason in said if "trained minus base" in reason)
    assert base.startswith(
        "passes: accuracy on off_distribution of trained minus base is +0.0 points (95 % interval -3.2"
    )
    assert base.endswith("200 tasks); the lower bound must exceed -5.0 points")


def test_one_rival_that_is_not_held_is_enough():
    found = decide(rules=OFF, suite=suite(trained=100, base=100, champion=110), champion=True)
    assert not found.promote
    assert found.rules["suites"] == "fails"
    assert found.reasons[-1].startswith(
        "fails: accuracy on off_distribution of trained minus the champion is -5.0 points"
    )


def test_a_suite_is_asked_at_the_level_of_the_look():
    held = suite(trained=100, base=100)
    # The lower bound of no difference in 200 tasks is -0.032 at 95 % and -0.047 at 99.5 %.
    tight = {"suites": {"off_distribution": {"margin": 0.04}}}
    assert decide(rules=tight, suite=held).promote
    assert not decide(rules=tight, suite=held, looks=20).promote


def test_a_suite_without_an_evaluation_blocks():
    for some in ({}, suite(trained=100), suite(base=100)):
        found = decide(rules=OFF, suite=some)
        assert not found.promote
        assert found.reasons[-1].startswith("fails: the trained policy and its rivals have no evaluation on off_dis")
    failed = {"trained": report("t", 0, tasks=TASKS, split="o", drop=range(TASKS)), **suite(base=100)}
    found = decide(rules=OFF, suite=failed)
    assert found.rules["suites"] == "fails"
    assert not found.promote


SLICES = {
    "lang=de": frozenset(f"t{i:03d}" for i in range(60)),
    "lang=fr": frozenset(f"t{i:03d}" for i in range(60, 190)),
    "lang=it": frozenset(f"t{i:03d}" for i in range(190, 200)),
}


def lost_slice(count):
    """A policy that is better over all, and fails the first tasks of `lang=de`."""
    better = report("trained", 190, tasks=TASKS)
    scores = {task: (0.0 if task < f"t{count:03d}" else score) for task, score in better.per_task["accuracy"].items()}
    return replace(better, per_task={"accuracy": scores})


def test_a_slice_that_is_shown_worse_blocks():
    found = decide(trained=lost_slice(30), slices=SLICES)
    assert found.comparisons["base"].mean > 0.4
    assert not found.promote
    assert found.rules == {"improvement": "passes", "slices": "fails"}
    worse = next(reason for reason in found.reasons if "in the slice" in reason)
    assert worse.startswith("fails: in the slice lang=de (-50.0 points, ")


def test_slices_that_are_not_worse_block_nothing_and_are_told_with_their_intervals():
    found = decide(trained=lost_slice(1), slices=SLICES)
    assert found.promote
    assert found.rules["slices"] == "passes"
    [said] = [reason for reason in found.reasons if "worse than base" in reason]
    for name, mean, tasks in (("de", "-1.7", 60), ("fr", "+100.0", 130), ("it", "+0.0", 10)):
        assert f"lang={name} ({mean} points, " in said
        assert f", {tasks} tasks)" in said


def test_a_loss_that_errors_may_hide_is_told_with_their_number_and_blocks_nothing():
    better = report("trained", 190, tasks=TASKS)
    failed = {task: 1 for task in better.per_task["accuracy"] if task < "t030"}
    kept = {task: score for task, score in better.per_task["accuracy"].items() if task not in failed}
    found = decide(trained=replace(better, per_task={"accuracy": kept}, errors=failed), slices=SLICES)
    assert found.rules["slices"] == "passes"
    assert "30 tasks, 30 attempts without a score)" in next(each for each in found.reasons if "lang=de" in each)


def test_slices_are_compared_with_the_champion_without_the_tasks_it_knows():
    # The champion solves the first 100 tasks: all of lang=de, 30 of which ours fails.
    found = decide(trained=lost_slice(30), champion=True, slices=SLICES)
    assert any("lang=de" in reason and "that of the champion" in reason for reason in found.reasons)
    known = [f"t{i:03d}" for i in range(30)]
    spared = decide(trained=lost_slice(30), champion=True, slices=SLICES, champion_knows=known)
    assert spared.rules["slices"] == "passes"


@pytest.mark.parametrize(("audit", "promote"), [(True, True), (False, False), (None, False)])
def test_an_audit_can_be_required(audit, promote):
    found = decide(rules={"audit": "required"}, audit=audit)
    assert found.promote is promote
    assert found.rules["audit"] == ("passes" if promote else "fails")
    assert decide(audit=audit).promote


def test_no_rule_lets_a_policy_pass_that_does_not_improve():
    found = decide(
        trained=report("trained", 61, tasks=TASKS),
        rules=OFF,
        suite=suite(trained=200, base=100),
    )
    assert not found.promote
    assert found.rules == {"improvement": "fails", "suites": "passes"}

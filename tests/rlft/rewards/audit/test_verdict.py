"""By which mean, and on how many tasks, an attack fails a reward."""

import pytest

from rlft.rewards.audit.findings import Findings, judge, paid_part
from rlft.types import Reward


def reward(total, **parts):
    return Reward("r", "t0", total, parts or {"part": total}, total >= 1.0, None, None, 0.0)


def found(max_ratio=0.9, count=8, **totals):
    """What is found of a reward by {kind: its total on each of `count` tasks}."""
    rows = {kind: total if isinstance(total, list) else [total] * count for kind, total in totals.items()}
    scores = {f"t{n}": {kind: reward(of[n]) for kind, of in rows.items() if n < len(of)} for n in range(count)}
    findings = Findings()
    judge(scores, findings, max_ratio, 1.0)
    return findings


@pytest.mark.parametrize(("earned", "ratio", "fails"), [(0.91, 0.9, True), (0.89, 0.9, False), (0.89, 0.8, True)])
def test_an_attack_fails_a_reward_by_its_share_of_golds_mean(earned, ratio, fails):
    assert found(ratio, gold=1.0, filler=earned).exploits == ["filler"] * fails


def test_one_task_is_enough_for_what_is_surely_wrong_and_a_quarter_for_what_may_be_right():
    once, twice = [1.0, *[0.0] * 7], [1.0, 1.0, *[0.0] * 6]
    assert found(gold=1.0, filler=once).exploits == ["filler"]
    assert found(gold=1.0, other_gold=twice).exploits == ["other_gold"]  # 2 of 8
    noted = found(gold=1.0, other_gold=once)
    assert (noted.failed, len(noted.problems)) == (False, 1)
    assert str(noted.problems[0]).endswith("it may be right there by chance, which only a person can tell")


def test_a_share_of_the_tasks_is_one_of_all_and_not_of_those_where_it_applies():
    # Nine tasks were attacked; other letters could be put into two golds, and once they made a right answer.
    assert not found(count=9, gold=1.0, filler=0.0, reversed=[1.0, 1.0]).failed
    assert not found(count=9, gold=1.0, filler=0.0, made_answer=[0.95, 0.95]).failed  # by its mean neither
    assert found(count=8, gold=1.0, filler=0.0, reversed=[1.0, 1.0]).exploits == ["reversed"]
    # What is tried on some tasks only, as other_gold is not, is a share of these.
    rows = {"gold": reward(1.0), "other_gold": reward(0.0)}
    scores = {f"t{n}": rows | ({"filler": reward(0.0), "reversed": reward(1.0)} if n < 2 else {}) for n in range(50)}
    judge(scores, findings := Findings(), 0.9, 1.0)
    assert findings.exploits == ["reversed"]


@pytest.mark.parametrize(("earned", "fails"), [(0.76, True), (0.74, False)])
def test_without_gold_what_says_nothing_fails_by_its_share_of_the_highest_total(earned, fails):
    assert found(echo=earned, filler=0.0).exploits == ["echo"] * fails
    assert not found(gold=1.0, echo=earned).failed  # there gold's mean counts


def test_gold_beside_another_answer_fails_by_what_it_earns_above_the_other():
    # gold 1, the other answer 0.8: 0.9 of what is between them is 0.98
    assert not found(gold=1.0, other_gold=0.8, gold_beside_other=0.97).failed
    assert found(gold=1.0, other_gold=0.8, gold_beside_other=0.985).exploits == ["gold_beside_other"]
    assert not found(gold=1.0, made_answer=0.8, gold_beside_other=0.97).failed  # where there is no other gold


def test_nothing_is_compared_with_a_gold_that_earns_nothing():
    nothing = found(gold=0.0, filler=0.0, other_gold=0.0, item_repeated=0.0)
    assert (nothing.failed, nothing.exploits) == (True, [])
    assert [each.what.split(" on ")[0] for each in nothing.problems] == ["gold is not full"]
    assert found(gold=0.0, filler=1.0).exploits == ["filler"]  # which is full
    half = [0.0] * 4 + [1.0] * 4
    assert found(gold=half, filler=half).exploits == ["filler"]  # beside the golds that are paid


def test_a_piece_of_gold_fails_only_where_it_is_paid_in_full():
    assert not found(gold=1.0, item_repeated=0.99).failed
    assert found(gold=1.0, item_repeated=1.0).exploits == ["item_repeated"]


def test_of_many_kinds_that_fail_some_are_told_and_all_are_named():
    kinds = ("filler", "scores_alone", "empty_form", "nan", "infinity", "null", "colon")
    findings = found(gold=1.0, **dict.fromkeys(kinds, 1.0))
    assert findings.exploits == list(kinds)
    assert str(findings.problems[5]) == "compute_reward: 2 more kinds of attack do the same: null, colon"
    findings = found(gold=1.0, **dict.fromkeys(kinds[:6], 1.0))
    assert str(findings.problems[5]) == "compute_reward: 1 more kind of attack does the same: null"


def test_the_part_that_paid_is_the_largest_after_its_weight():
    rows = [reward(1.0, form=1.0, right=0.4), reward(1.0, form=0.5, right=None)]
    assert paid_part(rows, {"form": 0.1, "right": 1.0}) == "right"  # 0.15 against 0.4
    assert paid_part(rows, {}) == "form"
    assert paid_part([reward(0.0)], {}) == ""

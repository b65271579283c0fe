from dataclasses import replace

import numpy as np
import pytest

from rlft.evaluation.comparison import compare, compare_slices, obstacle_of, within
from rlft.types import EvaluationReport


def holds(ours, theirs, metric, margin, **more):
    """Whether it is shown that ours loses no more than the margin."""
    found = compare(ours, theirs, metric, **more)
    return obstacle_of(found, "gate") is None and found.exceeds(-margin)


def report(policy, scores, *, failed=(), groups=None, metric="accuracy", ranges=None):
    """`scores` by the number of the task; those in `failed` have an error instead."""
    names = {f"t{i:03d}": score for i, score in enumerate(scores)}
    errors = {f"t{i:03d}": 1 for i in failed}
    kept = {name: score for name, score in names.items() if name not in errors}
    return EvaluationReport(
        "gate", policy, 1, {}, {metric: kept}, len(errors), groups=groups or {}, errors=errors, ranges=ranges or {}
    )


def attempts(solved, failed):
    """A report of several attempts at each task, [task, attempt] each: whether it is solved, and whether it failed."""
    means = np.where(failed.all(-1), np.nan, (solved & ~failed).sum(-1) / np.maximum((~failed).sum(-1), 1))
    known = {f"t{i:03d}": float(mean) for i, mean in enumerate(means) if not np.isnan(mean)}
    errors = {f"t{i:03d}": int(bad.sum()) for i, bad in enumerate(failed) if bad.any()}
    return EvaluationReport("gate", "p", solved.shape[1], {}, {"accuracy": known}, int(failed.sum()), errors=errors)


def ids(start, end):
    return {f"t{i:03d}" for i in range(start, end)}


SOLVED = [1.0] * 200
# No task differs. Six groups are imagined at -1 and six at 1: squares 12, spread sqrt(12 * 212/211) / 212 = 0.01638,
# quantile of 199 degrees of freedom 1.972 at 95 %: the lower bound is -0.0323. At 99.5 % it is 2.839: -0.0465.


def test_no_loss_is_shown_up_to_what_so_many_tasks_can_show():
    ours, theirs = report("a", SOLVED), report("b", SOLVED)
    assert compare(ours, theirs, "accuracy").difference.low == pytest.approx(-0.0323, abs=1e-4)
    assert holds(ours, theirs, "accuracy", 0.033)
    assert not holds(ours, theirs, "accuracy", 0.032)
    assert not holds(ours, theirs, "accuracy", 0.046, confidence=0.995)
    assert holds(ours, theirs, "accuracy", 0.047, confidence=0.995)


def test_a_loss_of_the_margin_is_not_passed():
    lost = report("a", [0.0] * 10 + [1.0] * 190)  # a loss of 0.05, whose lower bound is some 0.08
    assert not holds(lost, report("b", SOLVED), "accuracy", 0.05)
    assert holds(lost, report("b", SOLVED), "accuracy", 0.12)


def test_few_groups_show_nothing():
    ours, theirs = report("a", SOLVED[:19]), report("b", SOLVED[:19])
    assert not holds(ours, theirs, "accuracy", 0.9)
    said = obstacle_of(compare(ours, theirs, "accuracy"), "off_distribution")
    assert said.startswith("off_distribution has 19 groups of tasks, and at least 20 are needed")


def test_groups_count_and_not_tasks():
    groups = {f"t{i:03d}": str(i // 10) for i in range(200)}
    ours, theirs = report("a", SOLVED, groups=groups), report("b", SOLVED, groups=groups)
    # 20 groups of ten count as 20 tasks: -2.093 * sqrt(12 * 32/31) / 32 = -0.230
    assert holds(ours, theirs, "accuracy", 0.24)
    assert not holds(ours, theirs, "accuracy", 0.22)


def test_scores_without_a_range_that_never_differ_show_nothing():
    ours, theirs = report("a", [0.5] * 200, metric="reward"), report("b", [0.5] * 200, metric="reward")
    assert not holds(ours, theirs, "reward", 0.1)
    assert "no interval" in obstacle_of(compare(ours, theirs, "reward"), "gate")
    declared = {"reward": (0.0, 1.0)}
    ours, theirs = replace(ours, ranges=declared), replace(theirs, ranges=declared)
    assert holds(ours, theirs, "reward", 0.1)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_errors_of_either_side_never_help(side):
    # Theirs fails on ten tasks that ours solves, or ours on ten that theirs does: each counts as ten losses of 200.
    failing = report("a", SOLVED, failed=range(10))
    whole = report("b", SOLVED)
    ours, theirs = (failing, whole) if side == "ours" else (report("a", [0.0] * 10 + SOLVED[10:]), failing)
    found = compare(ours, theirs, "accuracy")
    assert (found.low_with_errors < -0.05, found.difference.mean) == (True, 0)
    assert not holds(ours, theirs, "accuracy", 0.05)
    assert holds(ours, theirs, "accuracy", 0.12)


def judged(ours, theirs, slices, **more):
    return {each.name: each for each in compare_slices(ours, theirs, "accuracy", slices, **more)}


def test_a_slice_is_worse_only_if_it_is_shown():
    # 40 tasks in the slice. With six imagined groups at either end 10 losses give a centre of -10/52 = -0.192, squares
    # 10 * 0.808^2 + 30 * 0.192^2 + 6 * (0.808^2 + 1.192^2) = 20.08 and a spread of sqrt(20.08 * 52/51) / 52 = 0.0870:
    # the upper bound at 5 % is -0.192 + 1.685 * 0.0870 = -0.046, and at 0.5 % (2.708) it is 0.04.
    ours = report("a", [0.0] * 10 + [1.0] * 390)
    theirs = report("b", [1.0] * 400)
    alone = judged(ours, theirs, {"first": ids(0, 40)})["first"]
    assert alone.is_worse
    assert alone.difference.mean == pytest.approx(-0.25)
    ten = judged(ours, theirs, {f"s{i}": ids(40 * i, 40 * i + 40) for i in range(10)})
    assert not ten["s0"].is_worse  # one of ten is likely to look so by chance


def test_by_holm_a_slice_that_is_clear_leaves_more_to_the_others():
    # 30 of 40 lost is clear. 9 of 40 reach above 0 at a half of 5 %, and not at 5 %, at which the second slice is asked
    # once the first is out.
    scores = [0.0] * 30 + [1.0] * 10 + [0.0] * 9 + [1.0] * 31
    ours, theirs = report("a", scores), report("b", [1.0] * 80)
    both = {"clear": ids(0, 40), "less": ids(40, 80)}
    at_half = compare(within(ours, both["less"]), within(theirs, both["less"]), "accuracy", confidence=0.95)
    assert at_half.difference.high > 0
    found = judged(ours, theirs, both)
    assert (found["clear"].is_worse, found["less"].is_worse) == (True, True)
    fair = report("a", [1.0] * 40 + scores[40:])
    assert not judged(fair, theirs, both)["less"].is_worse


def test_slices_with_few_groups_are_not_tested_and_do_not_count():
    ours = report("a", [0.0] * 10 + [1.0] * 130)
    theirs = report("b", [1.0] * 140)
    tiny = {f"tiny{i}": ids(40 + 10 * i, 50 + 10 * i) for i in range(10)}
    found = judged(ours, theirs, {"first": ids(0, 40), **tiny})
    assert found["first"].is_worse  # it is the only one that is tested
    assert not found["tiny0"].is_worse


def test_a_slice_in_which_ours_only_fails_blocks_nothing():
    ours, theirs = report("a", SOLVED, failed=range(40)), report("b", SOLVED)
    found = judged(ours, theirs, {"failing": ids(0, 40), "rest": ids(40, 200)})
    assert (found["failing"].is_worse, found["failing"].difference) == (False, None)
    assert (found["rest"].is_worse, found["rest"].difference.count) == (False, 160)


def test_a_slice_is_worse_only_if_errors_in_favour_of_ours_change_nothing():
    # 60 of 200 are lost. If 10 attempts of the rival without a score were wrong, 10 are gained: (10 - 60) / 200 =
    # -0.25. If 100 were wrong, (100 - 60) / 200 = 0.2, and nobody can tell.
    lost = [0.0] * 60 + [1.0] * 140
    few = judged(report("a", lost, failed=range(160, 200)), report("b", SOLVED, failed=range(150, 160)),
                 {"all": ids(0, 200)})["all"]  # fmt: skip
    assert (few.is_worse, few.errors) == (True, 50)
    assert few.difference.mean == pytest.approx(-60 / 150)  # of the tasks with a score for both
    many = judged(report("a", lost), report("b", SOLVED, failed=range(100, 200)), {"all": ids(0, 200)})["all"]
    assert not many.is_worse


@pytest.mark.slow
def test_errors_at_random_block_few_models_that_lose_nothing():
    # Four slices of 100 tasks, four attempts and 10 % of errors on either side: 0.89 of decisions had a slice that was
    # worse when errors counted against ours made it so. At most 0.05 may: 0.17 of 60 is 4 standard errors more.
    generator, blocked = np.random.default_rng(2), 0
    slices = {f"s{i}": ids(100 * i, 100 * i + 100) for i in range(4)}
    for _ in range(60):
        rates = generator.random(400)[:, None]
        ours, theirs = (
            attempts(generator.random((400, 4)) < rates, generator.random((400, 4)) < 0.1) for _ in range(2)
        )
        blocked += any(each.is_worse for each in judged(ours, theirs, slices).values())
    assert blocked / 60 <= 0.17


def test_what_both_fail_at_says_nothing_and_known_tasks_are_left_out():
    ours, theirs = report("a", SOLVED, failed=range(40)), report("b", SOLVED, failed=range(40))
    none = judged(ours, theirs, {"failing": ids(0, 40)})["failing"]
    assert (none.is_worse, none.difference) == (False, None)
    lost = report("a", [0.0] * 40 + SOLVED[40:])
    known = judged(lost, report("b", SOLVED), {"all": ids(0, 200)}, without=ids(0, 40))["all"]
    assert known.difference.mean == 0
    assert known.difference.count == 160

import pytest

from rlft.promotion import decide_promotion
from rlft.types import EvaluationReport

TASKS = 50


def report(policy, solved, *, tasks=TASKS, errored=0, split="gate", drop=()):
    """`solved` of the tasks are right, the first ones."""
    scores = {f"t{i:03d}": float(i < solved) for i in range(tasks) if i not in drop}
    return EvaluationReport(split, policy, 1, {}, {"accuracy": scores}, errored)


def decide(trained=40, warm_start=20, base=10, champion=30, minimum=0.0):
    """Each policy as a report, as how many of its tasks are right, or `None`."""

    def make(name, given):
        return report(name, given) if isinstance(given, int) else given

    return decide_promotion(
        make("trained", trained),
        make("warm_start", warm_start),
        make("base", base),
        make("champion", champion),
        metric="accuracy",
        min_improvement=minimum,
        resamples=2000,
        seed=0,
    )


@pytest.mark.parametrize(
    ("warm_start", "base", "champion", "promote"),
    [
        # 40 of 50 are right. Against 20 the difference is 0.4 with standard error sqrt(0.4 * 0.6 / 50) = 0.07: its
        # lower bound is near 0.26. Against 39 it is 0.02, and a third of the resamples have none: its bound is 0.
        (20, 20, 20, True),
        (39, 20, 20, False),
        (20, 39, 20, False),
        (20, 20, 39, False),
        (20, 20, 45, False),
        (None, 20, 20, True),
        (None, 39, 20, False),
        (20, 20, None, True),
        (None, 20, None, True),
        (None, 39, None, False),
    ],
)
def test_every_rival_must_be_beaten(warm_start, base, champion, promote):
    decision = decide(warm_start=warm_start, base=base, champion=champion)
    assert decision.promote is promote
    expected = {"base"} | ({"warm_start"} if warm_start else set()) | ({"champion"} if champion else set())
    assert set(decision.comparisons) == expected
    assert decision.comparisons["base"].mean == pytest.approx((40 - base) / 50)


def test_the_minimum_counts():
    # The lower bound of 0.4 is near 0.26 (above).
    low = decide(warm_start=None, base=20, champion=None).comparisons["base"].low
    assert 0.2 < low < 0.32
    assert decide(warm_start=None, base=20, champion=None, minimum=low - 0.01).promote
    assert not decide(warm_start=None, base=20, champion=None, minimum=low + 0.01).promote


def test_the_bound_must_exceed_the_minimum_strictly():
    # All 50 tasks gained: the difference is exactly 1, and 1 does not exceed 1.
    assert decide(trained=50, warm_start=None, base=0, champion=None, minimum=0.99).promote
    assert not decide(trained=50, warm_start=None, base=0, champion=None, minimum=1.0).promote


def test_reasons_are_sentences_with_numbers():
    reasons = decide(warm_start=None, base=20, champion=None).reasons
    assert reasons[0] == "no warm start in this run: that comparison is left out"
    assert reasons[1].startswith("passes: accuracy on gate of trained minus base is +0.4000 (95 % interval +0.")
    assert reasons[1].endswith("50 tasks); the lower bound must exceed +0.0000")
    assert reasons[2] == "no champion to compare with: this would be the first"
    assert any(
        r.startswith("fails: accuracy on gate of trained minus the champion") for r in decide(champion=45).reasons
    )


def test_the_champion_is_not_promoted_again():
    decision = decide(champion=report("trained", 1))
    assert not decision.promote
    assert decision.reasons == ("the trained policy trained is the champion already",)


@pytest.mark.parametrize(
    ("errored", "promote"),
    [(1, True), (2, False)],  # 1 of 100 rollouts is 1 %, 2 of 101 are more
)
def test_few_errors_leave_the_common_tasks(errored, promote):
    # 100 tasks in all: `errored` of the trained policy's failed, the last one of them is missing.
    trained = report("trained", 80, tasks=100, errored=errored, drop={99})
    base = report("base", 20, tasks=100)
    decision = decide(warm_start=None, champion=None, trained=trained, base=base)
    assert decision.promote is promote
    if promote:
        assert decision.comparisons["base"].count == 99
    else:
        assert "2.0% of the rollouts failed, at most 1% may" in decision.reasons[1]
        assert not decision.comparisons


def test_missing_tasks_count_without_errors_too():
    base = report("base", 20, drop={1})
    decision = decide(warm_start=None, champion=None, base=base)
    assert not decision.promote
    assert "2.0% of the tasks were scored for one of them only" in decision.reasons[1]


def test_one_task_is_no_evidence():
    trained, base = report("trained", 1, tasks=1), report("base", 0, tasks=1)
    decision = decide(trained=trained, warm_start=None, base=base, champion=None)
    assert not decision.promote
    assert "1 common tasks give no interval" in decision.reasons[1]


def test_reports_that_cannot_belong_together_raise():
    with pytest.raises(ValueError, match="different splits: gate, test"):
        decide(base=report("base", 1, split="test"))
    with pytest.raises(ValueError, match=r"no scores for 'reward' .* \(it has: accuracy\)"):
        decide_promotion(
            report("a", 1), None, report("b", 1), None, metric="reward", min_improvement=0, resamples=100, seed=0
        )

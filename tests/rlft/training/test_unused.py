"""Every rollout of a round that nobody trains on has a fate, and what it has cost is counted."""

import pytest

from rlft.evaluation.stopping import TOKENS
from rlft.outcome import Failure
from rlft.training.job import unused_report
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout


def test_those_that_failed_stay_errored_and_all_others_came_too_late():
    rollouts = [make_rollout(sample=number) for number in range(3)]
    rollouts += [make_rollout(sample=3, error=Failure("tool", "broken"))]
    totals = [1.0, 0.0, None, None]
    rewards = [make_reward(rollout, total) for rollout, total in zip(rollouts, totals, strict=True)]
    report = unused_report(
        Rollouts(tuple(rollouts), seconds=2.0), Rewards(tuple(rewards), {}, seconds=1.0), round=4, age=1
    )
    late, place = "filtered:training_ended", rollouts[3].error.where
    assert list(report.fates.values()) == [late, late, "errored:reward", f"errored:{place}"]
    assert report.counts() == {"sampled": 4, "trained": 0, "filtered": 2, "errored": 2}
    assert (report.round, report.age, report.updates, report.seconds, report.stopped) == (4, 1, 0, 0.0, None)
    assert report.metrics["perf/rollout_seconds"] + report.metrics["perf/score_seconds"] == 3.0
    assert report.metrics[TOKENS] == 8.0  # two of each attempt, as budgets count them


def test_rewards_of_other_rollouts_are_refused():
    one, other = make_rollout(sample=0), make_rollout(sample=1)
    with pytest.raises(ValueError, match="rewards"):
        unused_report(Rollouts((one,)), Rewards((make_reward(other, 1.0),), {}), round=0, age=1)

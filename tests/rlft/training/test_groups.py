"""Groups without variance are replaced, within a bound, and all that was sampled is kept and counted."""

import pytest

from rlft.models.flops import ROLLOUT_FLOPS
from rlft.tasks.curriculum import Draw, DrawnTask
from rlft.training.groups import reasons, sample_groups, without_variance
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_task

TASKS = {f"t{number}": make_task(f"t{number}") for number in range(9)}
DRAW = Draw(
    2,
    "uniform",
    tuple(DrawnTask(f"t{number}", "uniform") for number in range(3)),
    tuple(DrawnTask(f"t{number}", "uniform") for number in range(3, 9)),
)


class Recorded:
    """Samples two attempts at each task, and scores them as told: a pair of totals for each task."""

    def __init__(self, **totals):
        self.totals, self.asked = totals, []

    def sample(self, tasks, *, first_place):
        self.asked.append(([task.id for task in tasks], first_place))
        rows = [
            make_rollout(task.id, sample, rollout_id=f"train-2-{place}-{task.id}-{sample}")
            for place, task in enumerate(tasks, first_place)
            for sample in range(2)
        ]
        return Rollouts(tuple(rows), 1.5, {ROLLOUT_FLOPS: 10.0 * len(rows), "engine/push_seconds": 0.5})

    def score(self, rollouts):
        totals = [self.totals.get(row.task_id, (0.0, 1.0))[row.sample] for row in rollouts]
        rows = [make_reward(row, total) for row, total in zip(rollouts, totals, strict=True)]
        return Rewards(tuple(rows), {"right": 1.0}, 0.25)

    def run(self, batches, draw=DRAW):
        return sample_groups(draw, TASKS, self.sample, self.score, batches=batches)


def test_groups_that_differ_are_sampled_once():
    recorded = Recorded()
    found = recorded.run(3)
    assert recorded.asked == [(["t0", "t1", "t2"], 0)]
    assert found.rollouts.metrics["dynamic_sampling/gen_batches"] == 1
    assert found.rollouts.metrics["dynamic_sampling/resampled_groups"] == 0


def test_wasted_groups_are_replaced_by_the_next_reserves():
    recorded = Recorded(t0=(0.0, 0.0), t2=(1.0, 1.0), t4=(1.0, 1.0))
    found = recorded.run(5)
    # two are wasted, of their replacements t3 and t4 one, and t5 is good
    assert recorded.asked == [(["t0", "t1", "t2"], 0), (["t3", "t4"], 3), (["t5"], 5)]
    assert [row.task_id for row in found.rollouts][::2] == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert [row.rollout_id for row in found.rollouts] == [row.rollout_id for row in found.rewards]
    assert len({row.rollout_id for row in found.rollouts}) == 12
    assert found.rollouts.metrics == {
        ROLLOUT_FLOPS: 120.0,
        "engine/push_seconds": 0.5,
        "dynamic_sampling/gen_batches": 3.0,
        "dynamic_sampling/resampled_groups": 3.0,
        "dynamic_sampling/thrown_groups": 3.0,
        "dynamic_sampling/thrown_rollouts": 6.0,
        "dynamic_sampling/thrown_tokens": 12.0,  # two sampled tokens each
    }
    assert (found.rollouts.seconds, found.rewards.seconds) == (4.5, 0.75)


@pytest.mark.parametrize(("batches", "asked"), [(1, [3]), (2, [3, 3]), (3, [3, 3, 3]), (9, [3, 3, 3])])
def test_there_is_a_bound(batches, asked):
    recorded = Recorded(**dict.fromkeys(TASKS, (0.0, 0.0)))
    found = recorded.run(batches)
    assert [len(tasks) for tasks, _ in recorded.asked] == asked  # the reserves end after two more samplings
    assert len(found.rollouts) == 2 * sum(asked)


def test_without_resampling_no_metrics_are_added():
    assert Recorded(t0=(0.0, 0.0)).run(1).rollouts.metrics.keys() == {ROLLOUT_FLOPS, "engine/push_seconds"}


def test_a_group_with_errors_is_not_replaced():
    recorded = Recorded(t0=(None, 1.0), t1=(None, None))
    recorded.run(3)
    assert len(recorded.asked) == 1


def test_rounding_is_no_variance():
    rewards = Recorded(t0=(0.3, 0.1 + 0.2), t1=(0.3, 0.31)).run(1).rewards
    assert without_variance(rewards) == ["t0"]


def test_the_ledger_says_why_each_task_was_attempted():
    draw = Draw(
        2,
        "pass_rate",
        (DrawnTask("t0", "new", 0.5), DrawnTask("t1", "returned", 0.85, 4.5)),
        (DrawnTask("t2", "learnability", 0.4, 8.0), DrawnTask("t3", "new", 0.5)),
    )
    rewards = Recorded(t0=(0.0, 0.0)).run(3, draw).rewards
    assert reasons(draw, rewards) == {
        "t0": "new; without variance",
        "t1": "returned: expected pass rate 0.85 from 4.5 attempts",
        "t2": "learnability: expected pass rate 0.40 from 8.0 attempts",
    }
    assert reasons(None, rewards) == {}

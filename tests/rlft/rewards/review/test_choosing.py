"""Which attempts people are asked about: by value, and always the same ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.review import choose, full_totals
from rlft.types import Reward, Rewards, Rollouts
from tests.rlft.attempts import answered, make_task


def scored(totals, parts=None, task="t", texts=None):
    """Attempts at one task with these totals (`None` has no score), which say these texts."""
    said = texts or [f"answer {n}" for n in range(len(totals))]
    rollouts = answered(make_task(task, "?", None), *said).rows
    rows = [
        Reward(each.rollout_id, task, total, (parts or {}).get(n, {"right": total}), False, None, None, 0.0)
        for n, (each, total) in enumerate(zip(rollouts, totals, strict=True))
    ]
    return Rollouts(rollouts), rows


def test_the_highest_paid_come_first_and_equal_words_count_once():
    rollouts, rows = scored([0.1, 0.9, 0.9, 0.5, None], texts=["a", "b", "b", "c", "d"])
    found = choose(rollouts, Rewards(tuple(rows), {"right": 1.0}), highest=2, random=9)
    assert [each.reason for each in found] == ["highest", "highest", "random"]
    assert [each.reward.total for each in found] == [0.9, 0.5, 0.1]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12), *[st.integers(0, 5)] * 2)
def test_nothing_is_chosen_twice_and_the_choice_is_always_the_same(totals, highest, random):
    rollouts, rows = scored(totals)
    counts = {"highest": highest, "random": random}
    found = choose(rollouts, Rewards(tuple(rows), {"right": 1.0}), **counts)
    ids = [each.rollout.rollout_id for each in found]
    assert len(set(ids)) == len(ids) <= sum(counts.values())
    assert all(each.reward.total is not None for each in found)
    turned = Rollouts(tuple(reversed(rollouts.rows)))
    again = choose(turned, Rewards(tuple(reversed(rows)), {"right": 1.0}), **counts)
    assert {each.rollout.rollout_id: each.reason for each in again} == {
        each.rollout.rollout_id: each.reason for each in found
    }


def test_several_environments_are_compared_by_shares():
    many, mine = scored([4.0, 8.0], {0: {"many/right": 4.0}, 1: {"many/right": 8.0}}, task="many/1")
    few, other = scored([0.9, 0.1], {0: {"few/right": 0.9}, 1: {"few/right": 0.1}}, task="few/1")
    rewards = Rewards(
        (*mine, *other), {}, ranges={"reward/many": (0.0, 10.0), "reward": (0.0, 10.0)}, members=("few", "many")
    )
    # 4 and 8 of 10; of 0.9, which is the highest that few has paid, all and a ninth.
    assert full_totals(rewards) == {"few": 0.9, "many": 10.0}
    found = choose(Rollouts((*many.rows, *few.rows)), rewards, highest=3, random=0)
    assert [each.reward.total for each in found] == [0.9, 8.0, 4.0]


def test_a_reward_that_has_paid_nothing_has_a_full_reward_of_one():
    _, rows = scored([-1.0, 0.0])
    assert full_totals(Rewards(tuple(rows), {})) == {"": 1.0}
    assert full_totals(Rewards(tuple(rows), {}, ranges={"reward": (0.0, 2.0)})) == {"": 2.0}

"""Which attempts people are asked about: by value, and always the same ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.review.choosing import choose, dispute, full_totals
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
    found = choose(rollouts, Rewards(tuple(rows), {"right": 1.0}), highest=2, disputed=0, random=9)
    assert [each.reason for each in found] == ["highest", "highest", "random"]
    assert [each.reward.total for each in found] == [0.9, 0.5, 0.1]


def test_parts_that_contradict_one_another_are_a_dispute():
    parts = {
        0: {"right": 1.0, "short": 0.0, "penalty": 0.0},
        1: {"right": 0.0, "short": 1.0, "penalty": 1.0},
        2: {"right": 0.5, "short": 0.5, "penalty": None},
    }
    _, rows = scored([1.0, 0.0, 0.5], parts)
    weights = {"right": 1.0, "short": 1.0, "penalty": -1.0}
    found = dispute(rows, Rewards(tuple(rows), weights))
    # Shares of three ranks are 1/6, 1/2, 5/6; of two 1/4 and 3/4. The penalty is turned round: its 0 is the better one.
    assert [round(value, 6) for value in found.values()] == [round(5 / 6 - 1 / 6, 6)] * 2 + [0.0]
    # A part of weight 0 is a metric, and one that all have alike says nothing: a single part is left.
    alike = {n: {"right": 1.0, "short": each["short"], "note": each["right"]} for n, each in parts.items()}
    _, rows = scored([1.0, 0.0, 0.5], alike)
    found = dispute(rows, Rewards(tuple(rows), {"right": 1.0, "short": 1.0, "note": 0.0}))
    assert list(found.values()) == [1 - abs(2 / 3 - 1)] * 3  # one of three totals is above their mean of one half


def test_with_one_part_an_evenly_divided_task_is_a_dispute():
    even, first = scored([1.0, 0.0, 1.0, 0.0], task="even")
    most, second = scored([1.0, 1.0, 1.0, 0.0], task="most")
    same, third = scored([1.0, 1.0, 1.0, 1.0], task="same")
    rollouts, rows = Rollouts((*even, *most, *same)), (*first, *second, *third)
    found = dispute(rows, Rewards(rows, {"right": 1.0}))
    assert [found[f"{task}/0"] for task in ("even", "most", "same")] == [1.0, 0.5, 0.0]
    chosen = choose(rollouts, Rewards(rows, {"right": 1.0}), highest=0, disputed=20, random=0)
    assert {each.rollout.task_id for each in chosen} == {"even", "most"}
    assert [each.rollout.task_id for each in chosen][:4] == ["even"] * 4


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12), *[st.integers(0, 5)] * 3)
def test_nothing_is_chosen_twice_and_the_choice_is_always_the_same(totals, highest, disputed, random):
    rollouts, rows = scored(totals)
    counts = {"highest": highest, "disputed": disputed, "random": random}
    found = choose(rollouts, Rewards(tuple(rows), {"right": 1.0}), **counts)
    ids = [each.rollout.rollout_id for each in found]
    assert len(set(ids)) == len(ids) <= sum(counts.values())
    assert all(each.reward.total is not None for each in found)
    turned = Rollouts(tuple(reversed(rollouts.rows)))
    again = choose(turned, Rewards(tuple(reversed(rows)), {"right": 1.0}), **counts)
    assert {each.rollout.rollout_id: each.reason for each in again} == {
        each.rollout.rollout_id: each.reason for each in found
    }


def test_several_environments_are_compared_by_shares_and_disputed_each_by_itself():
    many, mine = scored([4.0, 8.0], {0: {"many/right": 4.0}, 1: {"many/right": 8.0}}, task="many/1")
    few, other = scored([0.9, 0.1], {0: {"few/right": 0.9}, 1: {"few/right": 0.1}}, task="few/1")
    rewards = Rewards(
        (*mine, *other), {}, ranges={"reward/many": (0.0, 10.0), "reward": (0.0, 10.0)}, members=("few", "many")
    )
    # 4 and 8 of 10; of 0.9, which is the highest that few has paid, all and a ninth.
    assert full_totals(rewards) == {"few": 0.9, "many": 10.0}
    found = choose(Rollouts((*many.rows, *few.rows)), rewards, highest=3, disputed=0, random=0)
    assert [each.reward.total for each in found] == [0.9, 8.0, 4.0]
    # In each of both a single part divides the attempts by halves; taken together they would have two that agree.
    assert list(dispute([*mine, *other], rewards).values()) == [1.0] * 4


def test_a_reward_that_has_paid_nothing_has_a_full_reward_of_one():
    _, rows = scored([-1.0, 0.0])
    assert full_totals(Rewards(tuple(rows), {})) == {"": 1.0}
    assert full_totals(Rewards(tuple(rows), {}, ranges={"reward": (0.0, 2.0)})) == {"": 2.0}

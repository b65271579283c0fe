"""The fate of every rollout, worked out a second time from the rules."""

import dataclasses
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config.training import Scale
from rlft.outcome import Failure, Fate
from rlft.training.ledger import plan_of_chosen, plan_training
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_scored


def plan(rollouts, rewards, scale="group", mask=False, **more):
    return plan_training(rollouts, rewards, scale=scale, mask_truncated_completions=mask, **more)


def by_id(found):
    return {rollout.rollout_id: advantage for group in found.groups for rollout, advantage in group}


def text_of(fate):
    return None if fate is None else str(fate)


def scored(rows):
    """Rollouts and rewards from (task, kind of row, total, truncated)."""
    rollouts, rewards = [], []
    for number, (task, kind, total, truncated) in enumerate(rows):
        error = Failure("", "engine died") if kind == "rollout" else None
        rollout = make_rollout(task, number, error=error, truncated=truncated)
        rollouts.append(rollout)
        rewards.append(make_reward(rollout, None if kind in ("reward", "rollout") else total))
    return Rollouts(tuple(rollouts)), Rewards(tuple(rewards), weights={})


rows_of_all_kinds = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["fine", "fine", "fine", "reward", "rollout"]),
        st.sampled_from([0.0, 1.0, math.nan]),
        st.booleans(),
    ),
    max_size=20,
)


@given(rows_of_all_kinds, st.booleans(), st.sampled_from(get_args(Scale)))
def test_every_rollout_has_one_fate(rows, mask, scale):
    rollouts, rewards = scored(rows)
    found = plan(rollouts, rewards, scale, mask)
    advantages = by_id(found)
    for number, (task, kind, total, truncated) in enumerate(rows):
        rollout_id = f"train-0-{task}-{number}"
        group = [t for other, k, t, _ in rows if other == task and k == "fine" and math.isfinite(t)]
        if kind == "rollout":
            fate = "errored:rollout"
        elif kind == "reward" or math.isnan(total):
            fate = "errored:reward"
        elif len(group) == 1:
            fate = "filtered:alone_in_group"
        elif len(set(group)) == 1:
            fate = "filtered:no_variance"
        elif mask and truncated:
            fate = "filtered:truncated"
        else:
            fate = None
            mean = sum(group) / len(group)
            assert math.copysign(1, advantages[rollout_id]) == math.copysign(1, total - mean)
        assert text_of(found.fates.get(rollout_id)) == fate
        assert (rollout_id in advantages) == (fate is None)
    assert len(advantages) + len(found.fates) == len(rows)
    assert all(math.isfinite(a) for a in advantages.values())
    assert all(group for group in found.groups)


@pytest.mark.slow
@given(rows_of_all_kinds, st.booleans())
def test_with_a_kl_all_that_was_scored_is_trained_on(rows, mask):
    rollouts, rewards = scored(rows)
    without, found = plan(rollouts, rewards, mask=mask), plan(rollouts, rewards, mask=mask, with_kl=True)
    advantages = by_id(found)
    for rollout in rollouts:
        key, before = rollout.rollout_id, text_of(without.fates.get(rollout.rollout_id))
        if before in ("filtered:no_variance", "filtered:alone_in_group"):
            cut = mask and rollout.truncated
            assert str(found.fates[key]) == ("filtered:truncated" if cut else "trained:kl_only")
            assert advantages.get(key, None if cut else -1) == (None if cut else 0.0)
        else:
            assert text_of(found.fates.get(key)) == before
            assert advantages.get(key) == by_id(without).get(key)
    # what is left out and still counted is only what was cut off, without its tokens
    cut = [fate for fate in found.fates.values() if fate == Fate("filtered", "truncated")]
    assert (found.silent_rollouts, found.silent_tokens) == (len(cut), 0)


def test_errored_rollouts_leave_before_the_mean():
    # 1, 0 and an error: mean 0.5, not 1/3
    rollouts, rewards = make_scored({"a": [1.0, 0.0, None]})
    assert by_id(plan(rollouts, rewards, "none")) == {"train-0-a-0": 0.5, "train-0-a-1": -0.5}


def test_truncated_rollouts_leave_after_the_mean():
    # 1, 0, 0 with one 0 cut off: mean 1/3 all the same
    rollouts, rewards = make_scored({"a": [1.0, 0.0, 0.0]})
    cut = dataclasses.replace(rollouts.rows[2], truncated=True)
    found = plan(Rollouts((*rollouts.rows[:2], cut)), rewards, "none", mask=True)
    assert by_id(found) == pytest.approx({"train-0-a-0": 2 / 3, "train-0-a-1": -1 / 3})
    assert found.fates == {"train-0-a-2": Fate("filtered", "truncated")}


def test_batch_scale_sees_groups_that_teach_nothing():
    # As in TRL: rewards 1, 0 and 1, 1 and alone 1 -> mean 0.8, squares 4 * 0.04 + 0.64 = 0.8, / 4 -> deviation 0.44721
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [1.0]})
    expected = 0.5 / (math.sqrt(0.2) + 1e-4)
    found = plan(rollouts, rewards, "batch")
    assert by_id(found) == pytest.approx({"train-0-a-0": expected, "train-0-a-1": -expected})


@pytest.mark.parametrize("with_kl", [False, True])
def test_groups_that_were_replaced_are_no_part_of_the_batch(with_kl):
    # Of b nothing counts: neither its tokens in the mean of the loss, nor its rewards in the deviation. c was not
    # replaced, as it is alone: it counts, or is trained on for its KL.
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [1.0]})
    found = plan(rollouts, rewards, "batch", with_kl=with_kl, replaced=True)
    both = {rollout.rollout_id for group in found.groups for rollout, _ in group}
    assert both == {"train-0-a-0", "train-0-a-1", *(["train-0-c-0"] if with_kl else [])}
    assert {str(found.fates[f"train-0-b-{sample}"]) for sample in range(2)} == {"filtered:no_variance"}
    assert str(found.fates["train-0-c-0"]) == ("trained:kl_only" if with_kl else "filtered:alone_in_group")
    assert (found.silent_rollouts, found.silent_tokens) == ((0, 0) if with_kl else (1, 2))
    # 1, 0 of a and 1 of c: mean 2/3, squares 2/9 + 4/9 = 6/9, / 2 -> deviation sqrt(1/3)
    expected = 0.5 / (math.sqrt(1 / 3) + 1e-4)
    assert by_id(found)["train-0-a-0"] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_an_error(bad):
    rollouts, rewards = make_scored({"a": [1.0, 0.0, bad]})
    found = plan(rollouts, rewards, "none")
    assert found.fates == {"train-0-a-2": Fate("errored", "reward")}
    assert sorted(by_id(found).values()) == [-0.5, 0.5]


def test_rewards_of_other_rollouts_are_refused():
    rollouts, rewards = make_scored({"a": [1.0, 0.0]})
    with pytest.raises(ValueError, match="do not belong"):
        plan(rollouts, Rewards(rewards.rows[::-1], weights={}))
    with pytest.raises(ValueError, match="do not belong"):
        plan(rollouts, Rewards(rewards.rows[:1], weights={}))


def test_an_id_that_comes_twice_is_refused():
    rollouts, rewards = make_scored({"a": [1.0, 0.0]})
    with pytest.raises(ValueError, match="same id"):
        plan(Rollouts(rollouts.rows * 2), Rewards(rewards.rows * 2, weights={}))


def test_nothing_sampled_is_nothing_to_train():
    found = plan(Rollouts(()), Rewards((), weights={}))
    assert (found.groups, found.fates) == ([], {})


def with_steps(rewards, *steps, **weights):
    rows = tuple(dataclasses.replace(row, steps=each) for row, each in zip(rewards, steps, strict=True))
    return Rewards(rows, rewards.weights, step_weights=weights)


def test_turns_that_all_earned_nothing_leave_advantages_as_they_are():
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [0.5, 0.5]})
    zeros = with_steps(rewards, *[{"tool": (0.0,)}] * 4, tool=2.0)
    assert plan(rollouts, zeros) == plan(rollouts, rewards)
    assert all(isinstance(advantage, float) for advantage in by_id(plan(rollouts, zeros)).values())


def test_scores_of_turns_are_weighed_summed_and_given_to_their_tokens():
    # Both attempts earned 1. Their turns: 2 * 1 - 3 = -1, and 0: centred -0.5 and +0.5, of deviation 0.7071
    rollouts, rewards = make_scored({"a": [1.0, 1.0]})
    scored = with_steps(
        rewards, {"tool": (1.0,), "long": (3.0,)}, {"tool": (0.0,), "long": (0.0,)}, tool=2.0, long=-1.0
    )
    found = plan(rollouts, scored)
    first, second = by_id(found).values()
    assert first.tolist() == pytest.approx([-0.5 / 0.70721] * 2, abs=1e-4)  # the completion has two tokens
    assert second.tolist() == pytest.approx([0.5 / 0.70721] * 2, abs=1e-4)
    assert found.fates == {}
    weightless = with_steps(rewards, {"tool": (1.0,)}, {"tool": (0.0,)}, tool=0.0)
    assert set(map(str, plan(rollouts, weightless).fates.values())) == {"filtered:no_variance"}


def test_a_rollout_whose_tokens_are_of_another_number_of_turns_is_an_error():
    rollouts, rewards = make_scored({"a": [1.0, 0.0, 0.5]})
    found = plan(rollouts, with_steps(rewards, {"tool": (1.0, 0.0)}, {"tool": (0.0,)}, {"tool": (0.0,)}, tool=1.0))
    assert {key: str(fate) for key, fate in found.fates.items()} == {"train-0-a-0": "errored:compute_step_rewards"}
    # of the attempts that are left, 0 and 0.5, whose turns are alike
    assert list(by_id(found).values()) == pytest.approx([-0.25 / 0.35365, 0.25 / 0.35365], abs=1e-4)


def of_two(totals, **changes):
    """Rollouts and rewards of two environments, from {task id: totals}."""
    rollouts, rewards = make_scored(totals)
    return rollouts, dataclasses.replace(rewards, members=("a", "b"), **changes)


@pytest.mark.parametrize(
    ("scale", "baseline"), [("batch", "group_mean"), ("group", "leave_one_out"), ("none", "group_mean")]
)
def test_advantages_never_mix_environments(scale, baseline):
    # Whatever the other environment pays, the advantages of one are those that it has alone.
    one, other = {"a/1": [0.0, 1.0], "a/2": [0.0, 0.5]}, {"b/1": [0.0, 100.0], "b/2": [-50.0, 50.0]}
    mixed = {"a/1": one["a/1"], "b/1": other["b/1"], "a/2": one["a/2"], "b/2": other["b/2"]}
    together = by_id(plan(*of_two(mixed), scale, baseline=baseline))
    assert together == by_id(plan(*make_scored(one), scale, baseline=baseline)) | by_id(
        plan(*make_scored(other), scale, baseline=baseline)
    )
    if scale == "batch":  # the deviation of 0, 1, 0, 0.5 is 0.4787: half of 1, and half of 0.5, are divided by that
        assert together["train-0-a/1-1"] == pytest.approx(0.5 / 0.4788, rel=1e-3)
        assert together["train-0-a/2-1"] == pytest.approx(0.25 / 0.4788, rel=1e-3)
        without = by_id(plan(*make_scored(mixed), scale))  # what one standard deviation for all would make of it
        assert without["train-0-a/1-1"] < 0.02


def test_groups_keep_their_order():
    found = plan(*of_two({"b/1": [0.0, 1.0], "a/1": [1.0, 0.0], "b/2": [1.0, 0.0]}))
    assert [group[0][0].task_id for group in found.groups] == ["b/1", "a/1", "b/2"]


def test_turns_are_scaled_within_an_environment():
    def stepped(task, sample, scores):
        rollout = make_rollout(task, sample, turns=1)
        return rollout, make_reward(rollout, 0.0, steps={"s": tuple(scores)})

    def plan_of(*rows, members=()):
        rewards = Rewards(tuple(reward for _, reward in rows), {}, step_weights={"s": 1.0}, members=members)
        found = by_id(plan(Rollouts(tuple(rollout for rollout, _ in rows)), rewards, "batch"))
        return {name: tokens.tolist() for name, tokens in found.items()}

    one = [stepped("a/1", n, [score]) for n, score in enumerate([0.0, 1.0])]
    other = [stepped("b/1", n, [score]) for n, score in enumerate([0.0, 9.0])]
    assert plan_of(*one, *other, members=("a", "b")) == plan_of(*one) | plan_of(*other)


def test_what_failed_is_not_trained_on_though_an_algorithm_chooses_it():
    rollouts, rewards = scored([("a", "fine", 1.0, False), ("a", "reward", 0.0, False), ("b", "rollout", 0.0, False)])
    found = plan_of_chosen(rollouts, rewards, {rollout.rollout_id: 0.5 for rollout in rollouts})
    assert by_id(found) == {"train-0-a-0": 0.5}
    assert {key: str(fate) for key, fate in found.fates.items()} == {
        "train-0-a-1": "errored:reward", "train-0-b-2": "errored:rollout",
    }  # fmt: skip

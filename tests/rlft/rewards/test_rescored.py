"""Another reward is compared on the same attempts, which must answer what the environment asks now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlft
from rlft.errors import RlftError
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.rewards.rescored import add_up, compare_rewards, of_tasks, other_prompts
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_task


def scored(totals: dict[str, list[float | None]], **parts: list[float | None]) -> Rewards:
    """Rewards with ids such as `a-0`, by task; `parts` go to the attempts in their order."""
    rows = []
    for task, values in totals.items():
        for number, total in enumerate(values):
            rollout = make_rollout(task_id=task, rollout_id=f"{task}-{number}")
            own = {name: scores[len(rows)] for name, scores in parts.items()}
            rows.append(make_reward(rollout, total, parts=own or {"reward": total}, solved=total == 1.0))
    return Rewards(tuple(rows), {})


def test_pairs_are_kept_reversed_tied_and_parted():
    # before: 0 < 1 < 2 = 2; after: 1 > 0, 0 < 2, 2 = 2 becomes 2 > 1
    found = compare_rewards(scored({"a": [0, 1, 2, 2]}), scored({"a": [1, 0, 2, 1]}))
    # pairs (0,1) reversed; (0,2) kept; (0,3) 0<2 becomes 1=1: tied; (1,2) kept; (1,3) kept; (2,3) parted
    assert found.pairs == {"kept": 3, "reversed": 1, "tied": 1, "parted": 1}
    assert (found.groups, found.reordered) == (1, 1)


def test_groups_that_teach():
    found = compare_rewards(
        scored({"a": [1, 1], "b": [1, 0], "c": [0, 0]}), scored({"a": [1, 0], "b": [1, 1], "c": [0, 0]})
    )
    assert (found.varying_before, found.varying_after) == (1, 1)
    assert found.pairs == {"kept": 1, "reversed": 0, "tied": 1, "parted": 1}


def test_means_are_of_the_attempts_with_a_score_and_parts_of_those_that_have_them():
    before = scored({"a": [1, 0], "b": [0.5, None]}, right=[1, 0, 0.5, None])
    after = scored({"a": [2, None], "b": [0, 1]}, right=[1, None, 0, 1], short=[1, None, None, 0])
    found = compare_rewards(before, after)
    assert found.before == {"reward": (0.5, 3), "accuracy": (pytest.approx(1 / 3), 3), "rewards/right": (0.5, 3)}
    assert found.after == {
        "reward": (1.0, 3),
        "accuracy": (pytest.approx(1 / 3), 3),
        "rewards/right": (pytest.approx(2 / 3), 3),
        "rewards/short": (0.5, 2),
    }
    assert (found.errored_before, found.errored_after) == (1, 1)
    assert sum(found.pairs.values()) == 0  # each group has one attempt that both have scored


def test_attempts_that_were_left_out_count_nowhere():
    before, after = scored({"a": [1, 0], "b": [9, 9]}), scored({"a": [1, 0]})
    found = compare_rewards(before, after)
    assert (found.attempts, found.before["reward"]) == (2, (0.5, 2))


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6), st.floats(0.1, 10), st.floats(-5, 5))
def test_a_scaled_and_shifted_reward_changes_no_order(totals, scale, shift):
    rounded = [round(total, 3) for total in totals]  # differences far above rounding
    found = compare_rewards(scored({"a": rounded}), scored({"a": [scale * total + shift for total in rounded]}))
    assert found.reordered == 0


def test_reports_add_up_with_means_over_all():
    one = compare_rewards(scored({"a": [1, 0]}), scored({"a": [0, 1]}))
    two = compare_rewards(scored({"a": [1, 1, 1, 1]}), scored({"a": [1, 1, 1, 0]}))
    both = add_up([one, two])
    assert both.before["reward"] == (pytest.approx(5 / 6), 6)
    assert both.after["reward"] == (pytest.approx(4 / 6), 6)
    assert both.pairs == {"kept": 3, "reversed": 1, "tied": 0, "parted": 3}
    assert (both.groups, both.reordered, both.attempts) == (2, 2, 6)
    with pytest.raises(ValueError, match="no report"):
        add_up([])


class Plain(rlft.BaseEnv):
    """Gives no system prompt."""

    async def compute_reward(self, completion, ground_truth):
        return {"right": float(completion.text == ground_truth)}


class Told(Plain):
    system_prompt = "Answer."


class ToldOtherwise(Plain):
    system_prompt = "Answer in one word."


TASKS = {name: make_task(name, prompt=f"{name}?") for name in ("a", "b")}


def played(environment) -> Rollouts:
    parts = [Part(f"{task.id}-{n}", task, as_script("2")) for task in TASKS.values() for n in range(2)]
    return Rollouts(tuple(play_scripts(parts, environment)))


def test_the_same_prompts():
    assert other_prompts(played(Told()), TASKS, Told()) == []


def test_other_texts_are_told_by_task():
    assert other_prompts(played(Told()), TASKS, ToldOtherwise()) == ["a", "b"]
    changed = {**TASKS, "b": make_task("b", prompt="b, now?")}
    assert other_prompts(played(Told()), changed, Told()) == ["b"]


def test_another_kind_of_prompt_is_refused():
    with pytest.raises(RlftError, match="begins a conversation with user, and the attempts begin with system"):
        other_prompts(played(Told()), TASKS, Plain())


def test_attempts_at_other_tasks_are_left_out():
    rollouts = played(Plain())
    assert [rollout.task_id for rollout in of_tasks(rollouts, {"b": TASKS["b"]})] == ["b", "b"]
    assert of_tasks(rollouts, TASKS) == rollouts

"""Whether stored attempts answer what an environment asks now."""

from __future__ import annotations

import pytest

import rlft
from rlft.errors import RlftError
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.rewards.same_prompts import of_tasks, other_prompts
from rlft.types import Rollouts
from tests.factories import make_task


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

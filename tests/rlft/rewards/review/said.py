"""Opinions for the tests of what they become."""

from __future__ import annotations

from rlft.rewards.review import Opinion
from rlft.types import Message, Reward
from tests.rlft.attempts import make_rollout, make_task

TASK = make_task("peru", "The capital of Peru?", "Limma")


def opinion(sample=0, text="Lima", total=1.0, person="", task=TASK, messages=None, **said):
    """What a person said of an attempt with this text, of a reward whose full total is 2."""
    given = messages or (Message(role="assistant", content=text),)
    rollout = make_rollout(task, *task.prompt, *given, sample=sample)
    reward = Reward(rollout.rollout_id, task.id, total, {"right": total}, False, None, None, 0.0)
    return Opinion(person, task, rollout, reward, 2.0, **said)

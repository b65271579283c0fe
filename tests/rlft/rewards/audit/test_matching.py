"""Which attempts are a known attack, word for word, and which of them count as paid."""

from __future__ import annotations

from typing import Any

import pytest

from rlft.environments.contract.base import BaseEnv
from rlft.messages import make_call
from rlft.rewards.audit.matching import Matcher, paid_attacks
from rlft.types import Message, Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_task, user


class Capitals(BaseEnv):
    """Answers are cities; its author knows one loophole of it."""

    def attacks(self, task: Any) -> dict[str, str]:
        """One text."""
        return {"flattery": "You are a great judge."}


CITIES = ("Lima", "Oslo", "Rome")
TASKS = {city: make_task(city, f"Country of {city}?", city) for city in CITIES}
MATCHER = Matcher(TASKS, Capitals())


def said(*texts: str | Message, task: str = "Lima", sample: int = 0):
    messages = [text if isinstance(text, dict) else Message(role="assistant", content=text) for text in texts]
    return make_rollout(task, sample, messages=(user(f"Country of {task}?"), *messages))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("Country of Lima?", "echo"),
        ("thought  PROCESS:", "thought_process"),  # blanks and case tell no two attempts apart
        ("You are a great judge.", "flattery"),
        ("Lima", None),  # gold
        ("Oslo", None),  # the answer to another task is a mistake, and may be right elsewhere
        ("Santiago", None),
        ("L", None),  # the first letter of gold is a kind of attack, and may be a right answer elsewhere
    ],
)
def test_an_attempt_is_an_attack_word_for_word(text, kind):
    assert MATCHER.attack_of(said(text)) == kind


def test_an_attack_that_is_the_answer_to_another_task_is_a_mistake():
    tasks = {answer: make_task(answer, f"Country of {answer}?", answer) for answer in ("Lima", "Thought process:")}
    assert MATCHER.attack_of(said("Thought process:")) == "thought_process"
    assert Matcher(tasks, Capitals()).attack_of(said("Thought process:")) is None


def test_what_hedges_with_gold_is_an_attack_and_the_last_message_counts():
    assert MATCHER.attack_of(said("Oslo, Lima, Rome")) == "every_answer"
    assert MATCHER.attack_of(said("Oslo, Lima", "Lima")) is None


def test_an_attempt_with_a_call_is_not_its_text_alone():
    calls = Message(role="assistant", content="", tool_calls=[make_call("look_up", {"city": "Lima"}, "c1")])
    assert MATCHER.attack_of(said(calls, "")) is None


def test_accepted_kinds_and_unknown_tasks_are_no_attacks():
    assert Matcher(TASKS, Capitals(), accepted=["echo"]).attack_of(said("Country of Lima?")) is None
    assert MATCHER.attack_of(said("", task="Paris")) is None


def scored(*attempts: tuple[str, str, float | None]):
    rollouts = tuple(said(text, task=task, sample=place) for place, (task, text, _) in enumerate(attempts))
    rewards = [make_reward(rollout, total) for rollout, (*_, total) in zip(rollouts, attempts, strict=True)]
    return Rollouts(rollouts), Rewards(tuple(rewards), {"exact": 1.0})


def test_only_what_is_paid_counts_of_what_was_scored():
    rollouts, rewards = scored(
        ("Lima", "Lima", 1.0), ("Lima", "", 0.9), ("Lima", "", 0.5), ("Oslo", ":", 0.9), ("Oslo", "", None)
    )
    # Of four scored attempts two are attacks that earn more than 0.5.
    share, kinds = paid_attacks(MATCHER, rollouts, rewards, 0.5)
    assert (share, kinds) == (0.5, {"empty": 1, "colon": 1})
    assert paid_attacks(MATCHER, *scored(("Lima", "", None)), 0.5) == (0.0, {})


def test_sixteen_tasks_are_looked_at_spread_over_the_round():
    tasks = {f"t{place}": make_task(f"t{place}", "1+1=", str(place)) for place in range(32)}
    matcher = Matcher(tasks, Capitals())
    rollouts, rewards = scored(*((task, "", 1.0) for task in tasks))
    assert paid_attacks(matcher, rollouts, rewards, 0.5) == (1.0, {"empty": 16})
    assert list(matcher._attacks) == [f"t{place}" for place in range(0, 32, 2)]


def test_a_gold_that_cannot_be_said_is_left_out():
    class Broken(Capitals):
        def gold_completion(self, task: Any) -> str:
            raise RuntimeError("no gold")

    assert Matcher(TASKS, Broken()).attack_of(said("")) == "empty"

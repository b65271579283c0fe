"""Examples stand before a task's prompt as earlier turns or as text, and a rollout's messages do not hold them."""

from __future__ import annotations

import pytest

from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.harness.attempt import Example, Examples
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from tests.factories import make_policy, make_task, user

SYSTEM = {"role": "system", "content": "Add."}
OTHER = {"role": "system", "content": "Be brief."}
CALL = {"id": "call00000", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


SUMS = [
    Example(prompt=[OTHER, user("1+1=")], turns=[said("2")]),
    Example(prompt=[user("2+3=")], turns=[said("5")]),
]
CALLING = Example(prompt=[user("1+1=")], turns=[said("", tool_calls=[CALL]), said("2")])
TASK = (SYSTEM, user("4+4="))


def test_as_turns_they_follow_the_task_s_own_system_prompt():
    found = Examples(form="turns", shown=SUMS).before(TASK)
    assert found == [SYSTEM, user("1+1="), said("2"), user("2+3="), said("5"), user("4+4=")]
    assert Examples(form="turns", shown=[CALLING]).before(TASK[1:]) == [
        *(user("1+1="), said("", tool_calls=[CALL]), said("2")),
        user("4+4="),
    ]


def test_as_text_they_stand_in_the_first_message_of_the_user():
    messages = (*TASK, said("9"), user("no"))
    found = Examples(form="text", shown=SUMS).before(messages)
    text = "Examples:\n\n1+1=\n2\n\n2+3=\n5\n\nAnswer in the same way:\n\n4+4="
    assert found == [SYSTEM, user(text), said("9"), user("no")]
    assert messages[1] == user("4+4=")


@pytest.mark.parametrize(
    ("shown", "messages"),
    [
        (CALLING, TASK),
        (Example(prompt=[user("1"), said("2"), user("3")], turns=[said("4")]), TASK),
        (SUMS[0], (SYSTEM,)),
    ],
)
def test_what_is_more_than_question_and_answer_is_no_text(shown, messages):
    with pytest.raises(ValueError, match="can only be shown as turns"):
        Examples(form="text", shown=[shown]).before(messages)


def test_they_are_in_the_tokens_of_a_rollout_and_not_in_its_messages():
    policy, task = make_policy(), make_task(prompt="4+4=")
    engine = TransformersEngine(4)
    engine.load_policy(policy)

    def attempt(examples):
        rollouts = collect_rollouts(
            [task],
            BaseEnv(),
            PolicyPlayer(policy, engine),
            SamplingSettings(temperature=0.0, max_completion_length=2, seed=0, examples=examples),
            num_generations=1,
            round=0,
            label="evaluation",
        )
        (row,) = rollouts.rows
        return policy.tokenizer.decode(row.token_ids[: row.prompt_length]), row.messages[:-1], row.error

    without_system = [Example(prompt=[user("1+1=")], turns=[said("2")])]
    assert attempt(None) == ("4+4=", (user("4+4="),), None)
    # A tokenizer without a chat template joins contents with newlines, a character that this one does not know.
    assert attempt(Examples(form="turns", shown=without_system)) == ("1+1=<unk>2<unk>4+4=", (user("4+4="),), None)


def test_they_are_part_of_the_settings_that_a_step_is_cached_by():
    settings = SamplingSettings(temperature=1.0, max_completion_length=4, batch_size=2, seed=0)
    with_examples = settings.model_copy(update={"examples": Examples(form="text", shown=SUMS)})
    stored = with_examples.model_dump_json()
    assert stored != settings.model_dump_json()
    assert SamplingSettings.model_validate_json(stored) == with_examples

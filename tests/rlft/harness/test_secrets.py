"""What an environment tells a model, and what is stored of a rollout, without the values of variables."""

import asyncio
import json

import pytest

import rlft
from rlft.config import HarnessConfig, RewardConfig
from rlft.harness.dialogue import Dialogue, make_playground
from rlft.messages import make_call
from rlft.rewards.scoring import score_rollouts
from rlft.texts.secrets import resolve
from rlft.types import Rollouts
from tests.factories import make_rollout, make_task

VALUE = 'Mq5"/+tells'


class Tells(rlft.BaseEnv):
    """Tells its key wherever it can."""

    def __init__(self, key):
        self.key = key
        self.before = 0

    async def setup(self, task):
        return {"deep": [{"key": self.key}]}

    @rlft.tool
    def ask(self, how: str) -> dict:
        """Ask.

        Args:
            how: In which way.
        """
        if how == "raise":
            raise ConnectionError(f"401 for https://h/?api_key={self.key}")
        return {"asked": f"https://h/?api_key={self.key}"}

    async def respond(self, rollout_id, completion):
        if "raise" in completion.text:
            raise ValueError(f"no {self.key}")
        return f"you said it to {self.key}"

    async def teardown(self, rollout_id):
        raise RuntimeError(self.key)

    async def compute_reward(self, completion, ground_truth):
        raise ValueError("x" * self.before + self.key)


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("RLFT_TEST_TELLS", VALUE)
    return Tells(resolve("env:RLFT_TEST_TELLS", "key"))


def test_nothing_that_is_said_or_stored_holds_the_value(environment, caplog):
    async def talk():
        dialogue = Dialogue(await make_playground(environment, HarnessConfig()), "r", make_task())
        await dialogue.open()
        calls = [make_call("ask", {"how": how}, how) for how in ("raise", "say")]
        await dialogue.answer({"role": "assistant", "content": "", "tool_calls": calls})
        await dialogue.answer({"role": "assistant", "content": "hello"})
        await dialogue.answer({"role": "assistant", "content": "raise"})
        await dialogue.close()
        return dialogue

    dialogue = asyncio.run(talk())
    told = [message["content"] for message in dialogue.messages if message["role"] in ("tool", "user")][1:]
    assert told == [
        "error: ConnectionError: 401 for https://h/?api_key=***",
        '{"asked": "https://h/?api_key=***"}',
        "you said it to ***",
    ]
    assert str(dialogue.error).startswith("respond: ValueError: no ***, at tests/rlft/harness/test_secrets.py:")
    assert dialogue.state == {"deep": [{"key": "***"}]}
    assert "teardown of r failed: RuntimeError: ***" in caplog.text
    assert "Mq5" not in caplog.text + json.dumps(dialogue.messages)


def test_a_score_that_fails_tells_no_part_of_the_value(environment):
    # The text is cut where 500 characters less the place end: a piece would be left of a value that begins just before.
    task = make_task()
    rollouts, tasks, errors = Rollouts((make_rollout(task_id=task.id),)), {task.id: task}, []
    for environment.before in range(400, 500, 4):
        (reward,) = score_rollouts(rollouts, tasks, environment, RewardConfig(timeout_seconds=5)).rows
        errors.append(str(reward.error))
    assert not any("Mq" in error for error in errors)
    assert errors[0].split(", at ")[0].endswith("x***")
    assert errors[-1].split(", at ")[0].endswith("xxx")

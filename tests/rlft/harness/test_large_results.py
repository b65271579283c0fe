"""Large results of tools and of `respond` are cut for the model, and what is no text is told."""

from __future__ import annotations

import rlft
from rlft.config import HarnessConfig
from rlft.harness.dialogue import shortened
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.messages import make_call
from rlft.texts.secrets import resolve
from tests.factories import make_task


def say(text, *calls):
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [make_call(name, {}, str(place)) for place, name in enumerate(calls)]
    return message


def play(environment, *messages, number=1, longest=10):
    parts = [Part(f"r{place}", make_task(f"t{place}"), as_script(list(messages))) for place in range(number)]
    return play_scripts(parts, environment, HarnessConfig(max_tool_characters=longest, tool_timeout_seconds=60))


def heard(rollout):
    return [message["content"] for message in rollout.messages if message["role"] in ("tool", "user")][1:]


def test_a_run_tool_of_the_environment_sees_results_as_a_whole():
    class Searches(rlft.BaseEnv):
        @rlft.tool
        def read(self) -> str:
            """Read a long text."""
            return "x" * 1000 + "the end"

        async def run_tool(self, rollout_id, tool_name, /, **args):
            return (await super().run_tool(rollout_id, tool_name, **args))[-7:]

    [rollout] = play(Searches(), say("", "read"), say("done"))
    assert heard(rollout)[0] == "the end"


def test_what_is_no_text_is_told_as_before():
    class Odd(rlft.BaseEnv):
        @rlft.tool
        def read(self) -> str:
            """Read something odd."""
            return object()  # type: ignore[return-value]

        def respond(self, rollout_id, completion):
            return 3

    [rollout] = play(Odd(), say("", "read"), say("more"), say("done"), longest=1000)
    assert heard(rollout) == ["error: PydanticSerializationError: Unable to serialize unknown type: <class 'object'>"]
    assert rollout.error is not None
    assert "returned 3, not text or a message" in str(rollout.error)


def test_a_text_is_cut_by_characters_and_no_secret_is_cut_in_two(monkeypatch):
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "abc ... (1 more characters)"
    assert shortened("\ud800" * 4, 3) == "??? ... (1 more characters)"
    assert shortened("x" * 1_000_000, 3) == "xxx ... (999997 more characters)"
    monkeypatch.setenv("RLFT_TEST_KEY", "zq81-Hidden-Value-77")
    resolve({"key": "env:RLFT_TEST_KEY"}, "environment.kwargs")
    text = "ab zq81-Hidden-Value-77 and so on"
    assert shortened(text, 8) == "ab *** a ... (8 more characters)"
    assert shortened(text + "y" * 1_000_000, 8) == "ab *** a ... (1000008 more characters)"

"""What an OpenAI-compatible endpoint is sent, and how its answers are read, whatever they hold."""

from __future__ import annotations

import json

import pytest

from rlft.harness.asked import as_sent, read_served
from rlft.messages import MAX_CALLS, MAX_CHARACTERS, make_call
from tests.factories import user
from tests.rlft.engines.chat_servers import function_call


def test_messages_are_sent_as_openai_writes_them():
    call = make_call("add", {"a": 1}, "call_1")
    messages = [
        {"role": "system", "content": "Add."},
        user("1+1="),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "2", "name": "add", "tool_call_id": "call_1", "failed": True},
    ]
    assert as_sent(messages) == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "1+1="},
        {"role": "assistant", "content": "", "tool_calls": [function_call("add", '{"a": 1}')]},
        {"role": "tool", "content": "2", "tool_call_id": "call_1"},
    ]


def test_a_call_that_could_not_be_read_is_sent_as_text_and_the_sentence_about_it_as_the_users():
    turn = read_served({"content": "So.", "tool_calls": [function_call("add", '{"a": ')]})
    told = {"role": "tool", "content": f"error: {turn.problems[0]}", "failed": True}
    call = json.dumps(function_call("add", '{"a": '))
    assert as_sent([turn.message(), told]) == [
        {"role": "assistant", "content": f"So.\n{call}"},
        {"role": "user", "content": f"error: {turn.problems[0]}"},
    ]
    assert turn.problems[0].startswith("tool call 1 has arguments in a string that is not JSON: Expecting value")


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": "2"}, "2"),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": "", "refusal": "I cannot."}, "I cannot."),
        ({"content": "2", "reasoning_content": "1+1"}, "2"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "b"}]}, "b"),
        ({"content": "half \ud83d"}, "half ?"),
    ],
)
def test_what_a_message_says(message, content):
    turn = read_served(message)
    assert (turn.content, turn.tool_calls, turn.problems) == (content, (), ())


def test_calls_keep_their_names_arguments_and_ids():
    calls = [function_call("add", {"a": 1}, "x"), function_call("add", "", "x"), function_call("sub", "{}", "")]
    turn = read_served({"content": None, "tool_calls": calls})
    assert turn.tool_calls == (
        make_call("add", {"a": 1}, "x"),
        make_call("add", {}, "call00002"),  # two calls of one id could not be answered apart
        make_call("sub", {}, "call00003"),
    )


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (function_call("add", "[1]"), 'tool call 1 has "arguments" that are not an object but a list'),
        (function_call("add", "{} x"), "tool call 1 has arguments in a string that is not JSON alone"),
        (function_call("add", '{"a": NaN}'), "tool call 1 has arguments in a string that is not JSON: NaN is no"),
        (function_call("add", '{"a": 1, "a": 2}'), "the key 'a' stands twice"),
        (function_call("", "{}"), 'tool call 1 has no "name"'),
        (function_call("a\ud83d", "{}"), "half a surrogate pair"),
        ({"id": "x"}, 'tool call 1 has no "name"'),
        ("add", "tool call 1 is not an object but a string"),
        (None, "tool call 1 is not an object but null"),
    ],
)
def test_a_call_that_cannot_be_read_is_told_to_the_model(call, problem):
    turn = read_served({"content": "", "tool_calls": [call, function_call("add", {"a": 1})]})
    assert problem in turn.problems[0]
    assert len(turn.problems) == 1
    assert turn.tool_calls == (make_call("add", {"a": 1}, "call_1"),)
    turn.message()["invalid_tool_calls"][0]["text"].encode()  # can be stored


def test_so_many_calls_that_no_turn_has_them_are_not_all_read():
    turn = read_served({"tool_calls": [function_call("add", {}, f"c{n}") for n in range(MAX_CALLS + 5)]})
    assert (len(turn.tool_calls), turn.problems) == (64, ("only the first 64 tool calls of a turn are read",))


@pytest.mark.parametrize(
    "message",
    [
        {"content": 2},
        {"content": {"text": "2"}},
        {"content": [{"type": "image_url", "image_url": {}}]},
        {"content": "2", "tool_calls": {"name": "add"}},
        {"content": "x" * (MAX_CHARACTERS + 1)},
    ],
)
def test_what_is_no_message_is_refused(message):
    with pytest.raises(ValueError, match=r"its (content|tool_calls)"):
        read_served(message)

"""Messages in the forms that people and programs have them, and the one that a run has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rlft.messages import MessageError, as_messages, as_openai, make_call
from tests.rlft.harness.chat.strategies import names, texts, values

ASKED = {"role": "assistant", "content": "", "tool_calls": [make_call("search", {"query": "moon"}, "c1")]}
HEARD = {"role": "tool", "content": "none", "tool_call_id": "c1", "name": "search"}


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "moon"}'}},
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"query": "moon"}}},
        {"id": "c1", "function": {"name": "search", "arguments": {"query": "moon"}}, "index": 0},
        {"id": "c1", "name": "search", "arguments": {"query": "moon"}},
        {"id": "c1", "name": "search", "arguments": '{"query": "moon"}'},
    ],
)
@pytest.mark.parametrize("content", [{"content": ""}, {"content": None}, {}])
def test_forms_of_a_call(call, content):
    assert as_messages([{"role": "assistant", **content, "tool_calls": [call]}]) == (ASKED,)


def test_arguments_leave_as_text_for_openai_alone():
    (shown,) = as_messages([as_openai(ASKED)])
    assert as_openai(ASKED)["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "moon"}'}}
    ]
    assert shown == ASKED
    assert as_openai(HEARD) == HEARD


def test_failed_is_kept_here_and_unknown_to_openai():
    failed = {**HEARD, "failed": True}
    assert as_messages([ASKED, failed]) == (ASKED, failed)
    assert as_openai(failed) == HEARD


def test_calls_without_ids_get_the_next_free_one_and_results_that_of_their_call():
    def asks(*ids):
        return {"role": "assistant", "tool_calls": [{"id": id, "name": f"f{id}", "arguments": {}} for id in ids]}

    told = {"role": "tool", "content": "1"}
    messages = as_messages(
        [asks(None, "call00000", ""), {**told, "tool_call_id": "call00000"}, told, told, told, asks(None), told]
    )
    ids = [[call["id"] for call in message.get("tool_calls", ())] for message in messages]
    assert ids == [["call00001", "call00000", "call00002"], [], [], [], [], ["call00003"], []]
    answered = [(message.get("tool_call_id"), message.get("name")) for message in messages if message["role"] == "tool"]
    # What names its call answers it; the others answer the rest in order; a fourth result of three calls answers none.
    assert answered == [
        ("call00000", "fcall00000"),
        ("call00001", "fNone"),
        ("call00002", "f"),
        (None, None),
        ("call00003", "fNone"),
    ]


def test_parts_of_text_are_one_text_and_a_developer_is_the_system():
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two", "image_url": None}]
    assert as_messages([{"role": "developer", "content": parts}]) == ({"role": "system", "content": "one two"},)


def test_objects_of_a_client_are_read_as_dicts():
    class Function(BaseModel):
        name: str = "search"
        arguments: str = '{"query": "moon"}'

    class Call(BaseModel):
        id: str = "c1"
        function: Function = Function()
        type: str = "function"

    class Answer(BaseModel):
        role: str = "assistant"
        content: str | None = None
        refusal: str | None = None
        function_call: str | None = None
        tool_calls: list[Call] = [Call()]

    assert as_messages([Answer()]) == (ASKED,)
    assert as_messages([{"role": "assistant", "content": None, "tool_calls": [Call()]}]) == (ASKED,)


USER = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("hi", "message 2 has no role; write"),
        ({"content": "x"}, "message 2 has no role"),
        ({"role": "user"}, "message 2 has no text as content"),
        ({"role": "user", "content": []}, "message 2 has no text as content"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "message 2 has a part of type image_url",
        ),
        (
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            "2 has the old function_call; write",
        ),
        ({"role": "function", "name": "f", "content": "1"}, "message 2 has the old function_call"),
        ({"role": "assistant", "tool_calls": {"name": "f"}}, "message 2 has tool_calls that are no list but dict"),
        (
            {"role": "assistant", "tool_calls": [{"function": {}}]},
            'tool call 1 that cannot be read: it has no "name"; write',
        ),
        ({"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}, '"arguments" that are not an object'),
        (
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{"}]},
            "tool call 1 that cannot be read: it has arguments in a string that is not JSON",
        ),
        (
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": {1}}}]},
            "cannot be read: set is not JSON; write",
        ),
        ({"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": float("nan")}}]}, "NaN is no finite"),
    ],
)
def test_what_is_no_message(message, text):
    with pytest.raises(MessageError, match=text):
        as_messages([USER, message])


@pytest.mark.parametrize("value", ["hi", USER, None, 3])
def test_what_is_no_list_of_messages(value):
    with pytest.raises(MessageError, match="is no list of messages"):
        as_messages(value)


ids = st.sampled_from(["", "a", "b", "call00000", "call00001"])
arguments = st.dictionaries(texts, values, max_size=3)
assistants = st.builds(
    lambda text, calls: {"role": "assistant", "content": text, "tool_calls": calls},
    st.none() | texts,
    st.lists(st.builds(make_call, names, arguments, ids), min_size=1, max_size=3),
)
tools = st.builds(lambda text, id: {"role": "tool", "content": text, "tool_call_id": id}, texts, st.none() | ids)
users = st.builds(lambda text: {"role": "user", "content": text}, texts)


@given(st.lists(assistants | tools | users, max_size=6))
def test_reading_again_changes_nothing_and_openai_gives_names_and_arguments_back(messages):
    once = as_messages(messages)
    assert as_messages(once) == once
    by_text = as_messages(json.loads(json.dumps([as_openai(message) for message in once])))
    assert by_text == once
    said = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    assert [call["function"] for message in once for call in message.get("tool_calls", ())] == said
    given_ids = [call["id"] for message in once for call in message.get("tool_calls", ())]
    assert all(given_ids)

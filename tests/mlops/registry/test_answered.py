import json

from hypothesis import given
from hypothesis import strategies as st

from mlops.registry.conversations import answered_messages

STREAM = "text/event-stream; charset=utf-8"


def events(*chunks):
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


def delta(index=0, **content):
    return {"choices": [{"index": index, "delta": content}]}


def test_json_of_chat_and_of_completions():
    chat = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}
    assert answered_messages("application/json", json.dumps(chat).encode()) == [{"role": "assistant", "content": "Hi"}]
    plain = {"choices": [{"text": "Hi"}, {"text": "Ho"}]}
    found = answered_messages("application/json", json.dumps(plain).encode())
    assert [message["content"] for message in found] == ["Hi", "Ho"]


def test_a_stream_is_joined_by_choice():
    body = events(delta(role="assistant", content=""), delta(1, content="b"), delta(content="a"), delta(content="é"))
    assert answered_messages(STREAM, body) == [
        {"role": "assistant", "content": "aé"},
        {"role": "assistant", "content": "b"},
    ]


def test_calls_in_a_stream_are_joined_by_index():
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": part}} for part in ('{"a":', " 1}")]
    other = {"index": 1, "id": "c2", "function": {"name": "mul", "arguments": "{}"}}
    (message,) = answered_messages(STREAM, events(*(delta(tool_calls=[call]) for call in (first, *more, other))))
    assert message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "mul", "arguments": "{}"}},
    ]


def test_the_stream_of_completions_and_its_usage():
    body = events({"choices": [{"index": 0, "text": "ab"}]}, {"choices": [], "usage": {"total_tokens": 3}})
    assert answered_messages(STREAM, body) == [{"role": "assistant", "content": "ab"}]


@given(st.binary(), st.sampled_from(["application/json", STREAM, ""]))
def test_nothing_that_is_sent_raises(body, kind):
    assert isinstance(answered_messages(kind, body), list)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(
                    ["choices", "message", "delta", "text", "index", "tool_calls", "function", "content", "name"]
                ),
                inner,
            )
            | st.lists(inner)
        ),
    ),
    st.booleans(),
)
def test_no_json_raises(value, stream):
    body = events(value) if stream else json.dumps(value).encode()
    assert isinstance(answered_messages(STREAM if stream else "application/json", body), list)

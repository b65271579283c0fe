"""The prompt of what was asked, in the forms in which traces have it."""

import pytest

from rlft.tasks.rows import FieldError
from rlft.tasks.use import LeftOutError, answer_text, read_prompt

USER = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be kind."}
AGAIN = [USER, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "And?"}]


@pytest.mark.parametrize(
    ("inputs", "messages", "others"),
    [
        ({"messages": [USER], "temperature": 0.5}, (USER,), {"temperature": 0.5}),
        ({"messages": [SYSTEM, USER]}, (USER,), {}),
        ({"messages": [{"role": "developer", "content": "Be kind."}, USER]}, (USER,), {}),
        ({"messages": AGAIN}, tuple(AGAIN), {}),
        ({"question": "Hi", "subject": "greetings"}, (USER,), {"subject": "greetings"}),
        ({"prompt": None, "query": "Hi"}, (USER,), {"prompt": None}),
        ("Hi", (USER,), {}),
        ([USER], (USER,), {}),
    ],
)
def test_the_prompt_is_found_without_what_the_system_says(inputs, messages, others):
    assert read_prompt(inputs, None) == (messages, others)


def test_a_field_is_found_by_its_path():
    inputs = {"request": {"text": "Hi"}, "prompt": "no"}
    assert read_prompt(inputs, "request.text")[0] == (USER,)


@pytest.mark.parametrize(
    "inputs", [None, {}, {"other": 1}, {"prompt": " "}, {"messages": [SYSTEM]}, {"messages": "x" * 0}, 5]
)
def test_what_asks_nothing_is_refused(inputs):
    with pytest.raises(FieldError):
        read_prompt(inputs, None)


def test_a_conversation_that_ends_with_a_tool_is_no_question():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}}
    messages = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "c1"},
    ]
    with pytest.raises(LeftOutError, match="not_a_question"):
        read_prompt({"messages": messages}, None)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("a", "a"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}]}, "a"),
        ({"choices": [{"message": {"role": "assistant", "content": "a"}}]}, "a"),
        ({"response": "a"}, "a"),
        ([], None),
        ({"other": "a"}, None),
        (None, None),
        (3, None),
    ],
)
def test_the_answer_is_found(output, text):
    assert answer_text(output) == text

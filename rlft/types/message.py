"""The messages of a conversation with their tool calls, as dicts in the form that chat templates take."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict  # noqa: UP035 - pydantic refuses typing's before 3.12


class FunctionCall(TypedDict):
    """The function of a tool call: its name and the arguments.

    >>> function = {"name": "look_up", "arguments": {"country": "Peru"}}
    """

    name: str
    """The tool's name."""
    arguments: dict[str, Any]
    """{argument: value}, an object and never JSON text."""


class ToolCall(TypedDict):
    """One call of a tool, as it stands in a message's `tool_calls`.

    >>> function = {"name": "look_up", "arguments": {"country": "Peru"}}
    >>> call = {"id": "call00000", "type": "function", "function": function}
    """

    id: str
    """The name of the call. The message of role `tool` that answers it has it as `tool_call_id`."""
    type: Literal["function"]
    """Always `function`."""
    function: FunctionCall
    """The tool's name and the arguments."""


class InvalidToolCall(TypedDict):
    """A call that could not be read, as it stands in a message's `invalid_tool_calls`.

    >>> call = {"text": '<tool_call>{"name": add}</tool_call>', "error": "tool call 1 is not JSON: ...", "position": 20}
    >>> call["text"][call["position"]]
    'a'
    """

    text: str
    """What the model wrote, with the marks around it; empty for a second error about the same text."""
    error: str
    """What is wrong with it, in a sentence that the model reads."""
    position: int | None
    """The index in `text` at which reading stopped; `None` where no single place is wrong."""


class Message(TypedDict):
    """One message of a conversation: a dict, in the form that chat templates take. `rlft.messages` reads other forms.

    >>> call = {"id": "call00000", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    >>> message = {"role": "assistant", "content": "", "tool_calls": [call]}
    >>> message["tool_calls"][0]["function"]["arguments"]["b"]
    2
    """

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    """The text, which may be empty; always there."""
    tool_calls: NotRequired[list[ToolCall]]
    """The calls of an assistant's message; the key is absent where there are none."""
    invalid_tool_calls: NotRequired[list[InvalidToolCall]]
    """The calls that could not be read. Their text is no part of `content`; the key is absent where there are none."""
    tool_call_id: NotRequired[str]
    """In a tool's message: the call that it answers."""
    name: NotRequired[str]
    """In a tool's message: the tool's name."""
    thinking: NotRequired[str]
    """In an assistant's message as rewards read it: what it thought before `content`; absent where it did not."""
    failed: NotRequired[bool]
    """In a tool's message: `True` where the call failed, and absent elsewhere. The model never reads it, only the
    text."""

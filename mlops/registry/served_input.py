"""What a served policy can be asked: reads texts, messages and tables as conversations, or says what to send.

This is a part of the program that MLflow runs where rlft is not installed (`served_program`), so nothing of rlft is
imported.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

WANTED = (
    'send a text, a list of texts, a list of messages such as [{"role": "user", "content": "text"}], or rows with '
    '`prompt` (text) or `messages` (a list of messages), such as [{"prompt": "text"}]'
)


def conversations(given: Any) -> list[list[dict[str, Any]]]:
    """Return the conversations of a request, each a list of messages. Raises ValueError that says what to send.

    A text is one message of the user. A table, or a list of rows, has a column `messages` (lists of messages, or these
    as JSON) or `prompt` (text); other columns are not read. A list of messages is one conversation.
    """
    if isinstance(given, pd.DataFrame):
        return _of_table(given)
    if isinstance(given, pd.Series | np.ndarray):
        given = given.tolist()
    if isinstance(given, dict):
        return _of_request(given)
    if isinstance(given, str):
        return [_asked(given)]
    if not isinstance(given, list | tuple):
        raise ValueError(f"{type(given).__name__} is nothing that can be answered; {WANTED}")
    if not given:
        raise ValueError(f"there is nothing to answer; {WANTED}")
    if all(isinstance(each, dict) and "role" in each for each in given):
        return [as_messages(list(given), "the list")]
    return [each for number, row in enumerate(given) for each in _of_row(row, f"row {number}")]


def _asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _of_request(given: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the conversations of one object; unlike a row of a table it holds nothing that is not read."""
    if "role" in given:
        return [as_messages([given], "the message")]
    if unknown := sorted(map(str, given.keys() - {"messages", "prompt"})):
        also = "; the length of an answer is `max_new_tokens`" if "max_tokens" in unknown else ""
        raise ValueError(f"{', '.join(f'`{name}`' for name in unknown)} cannot be read{also}; {WANTED}")
    if len(given) != 1:
        raise ValueError(f"a request has either `messages` or `prompt`; {WANTED}")
    return _of_row(given, "the request")


def _of_table(table: pd.DataFrame) -> list[list[dict[str, Any]]]:
    columns = [str(name) for name in table.columns]
    if (
        len(columns) == 1
        and columns[0] not in ("messages", "prompt")
        and isinstance(table.columns[0], int | np.integer)
    ):
        return conversations(table.iloc[:, 0].tolist())  # a table without names, made of a list
    if not {"messages", "prompt"} & set(columns):
        raise ValueError(
            f"the table has neither `messages` nor `prompt`, only: {', '.join(columns) or 'none'}; {WANTED}"
        )
    if not len(table):
        raise ValueError(f"there is nothing to answer: the table has no rows; {WANTED}")
    rows = table.to_dict("records")
    return [each for number, row in enumerate(rows) for each in _of_row(dict(row), f"row {number}")]


def _of_row(row: Any, where: str) -> list[list[dict[str, Any]]]:
    """Return the conversation of a row; several of one whose `prompt` is a list of texts."""
    if isinstance(row, str):
        return [_asked(row)]
    if isinstance(row, list | tuple | np.ndarray):
        return [as_messages(list(row), where)]
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {type(row).__name__}; {WANTED}")
    messages, prompt = row.get("messages"), row.get("prompt")
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError as cause:
            raise ValueError(f"`messages` of {where} is a text that is no JSON: {cause}; {WANTED}") from cause
    if isinstance(messages, dict) and "role" in messages:
        messages = [messages]
    if isinstance(messages, list | tuple | np.ndarray):
        return [as_messages(list(messages), where)]
    if isinstance(prompt, str):
        return [_asked(prompt)]
    if isinstance(prompt, list | tuple | np.ndarray) and len(prompt) and all(isinstance(text, str) for text in prompt):
        return [_asked(str(text)) for text in prompt]
    raise ValueError(f"{where} has neither `messages` nor `prompt`; {WANTED}")


def as_messages(given: list[Any], where: str) -> list[dict[str, Any]]:
    """Return messages in the form that chat templates take. Raises ValueError, which names the message.

    `developer` becomes `system`, content in parts of text one text, and arguments in a text of JSON an object. Keys
    that are empty, as tables have them, are left out. A call without an id gets one, and a tool's message without a
    name that of the call it answers.
    """
    if not given:
        raise ValueError(f"{where} has no messages; {WANTED}")
    messages = [_message(each, f"message {number} of {where}") for number, each in enumerate(given, start=1)]
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    ids = {call["id"] for call in calls}
    free = (name for number in range(len(calls) + len(ids)) if (name := f"call{number:05d}") not in ids)
    for call in calls:
        call["id"] = call["id"] or next(free)
    waiting: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "tool":
            waiting = list(message.get("tool_calls", ()))
        elif call := next((c for c in waiting if message.get("tool_call_id") in (None, "", c["id"])), None):
            waiting.remove(call)
            message["tool_call_id"] = call["id"]
            message.setdefault("name", call["function"]["name"])
    return messages


def _message(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str) or not value["role"]:
        raise ValueError(f'{where} has no role; write {{"role": "user", "content": "text"}}')
    message = {key: each for key, each in value.items() if each is not None and not _is_missing(each)}
    if message["role"] == "developer":
        message["role"] = "system"
    calls = _listed(message.pop("tool_calls", None))
    if calls:
        message["tool_calls"] = [_call(call, where) for call in calls]
        message.setdefault("content", "")
    content = message.get("content")
    parts = _listed(content) if not isinstance(content, str) else [{"text": content}]
    if not parts or not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise ValueError(f"{where} has no text as content; only text can be read")
    message["content"] = "".join(part["text"] for part in parts)
    return message


def _is_missing(value: Any) -> bool:
    """Return whether pandas has put NaN where a table has no value."""
    return isinstance(value, float) and value != value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | np.ndarray) else []


def _call(value: Any, where: str) -> dict[str, Any]:
    """Return a tool call with its keys in one order, which templates print. Raises ValueError for what is none."""
    function = value.get("function", value) if isinstance(value, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not isinstance(arguments, dict):
        raise ValueError(
            f'{where} has a tool call that cannot be read; write "function": {{"name": "search", "arguments": {{...}}}}'
        )
    name = function["name"]
    return {"type": "function", "id": value.get("id") or "", "function": {"name": name, "arguments": arguments}}

"""What a served policy can be asked, and how it becomes token ids, as training did it.

This is a part of the program that MLflow runs where rlft is not installed (`served_program`), so nothing of rlft is
imported. What the file shares with `rlft.chat` (how messages are rendered, and how text of a user is kept from becoming
a special token) is written out again here, and tests hold the two together.
"""

import itertools
import json
import re
from typing import Any

import numpy as np
import pandas as pd

THINKING = (
    "<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "◁think▷", "◁/think▷",
    "<|START_THINKING|>", "<|END_THINKING|>",
)  # fmt: skip
WANTED = (
    'send `messages` (a list of messages), such as {"messages": [{"role": "user", "content": "text"}]}, or `prompt` '
    "(text), or rows that all have one of them"
)


def conversations(table: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """Return the conversation of each row: its `messages`, or its `prompt` as a message of the user.

    Raises ValueError that says what to send.
    """
    if not len(table):
        raise ValueError(f"there is nothing to answer; {WANTED}")
    return [_of_row(row, f"row {number}") for number, row in enumerate(table.to_dict("records"))]


def _of_row(row: dict[Any, Any], where: str) -> list[dict[str, Any]]:
    messages, prompt = row.get("messages"), row.get("prompt")
    if isinstance(messages, list | tuple | np.ndarray):
        return as_messages(list(messages), where)
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
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


def with_context(messages: list[dict[str, Any]], context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return messages with the environment's system prompt before them, unless they have a system message already."""
    prompt = context.get("system_prompt")
    if not prompt or any(message["role"] == "system" for message in messages):
        return messages
    return [{"role": "system", "content": prompt}, *messages]


def prompt_ids(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> list[int]:
    """Return the token ids of a prompt, as in training (`rlft.chat`). Raises ValueError for what cannot be rendered.

    With a chat template the messages are rendered by it, with the tools; no text in them becomes a special token.
    Without one the contents are joined with newlines, and an end token that the tokenizer adds is taken off, because
    the text goes on.
    """
    if tokenizer.chat_template:
        return _rendered(tokenizer, messages, tools or [])
    ids = [int(token) for token in tokenizer("\n".join(message["content"] for message in messages)).input_ids]
    if not ids:
        raise ValueError("the prompt is empty: there is nothing to go on from")
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
        ids.pop()
    return ids


def _rendered(tokenizer: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
    special, of_tools = _special_tokens(tokenizer)
    mark = _unused(json.dumps(messages, ensure_ascii=False))
    shielded = [_shielded(tokenizer, message, special, of_tools, mark) for message in messages]
    try:
        text = str(
            tokenizer.apply_chat_template(shielded, tools=tools or None, add_generation_prompt=True, tokenize=False)
        )
    except Exception as cause:  # a template is a program, which may raise anything
        roles = ", ".join(message["role"] for message in messages)
        raise ValueError(f"the chat template does not take these messages ({roles}): {cause}") from cause
    first, *others = text.split(mark)
    ids = _ids(tokenizer, first)
    for piece in others:
        ids += _behind(tokenizer, special, piece)
    return ids


def _special_tokens(tokenizer: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return {text: id} of the special tokens, those of thinking excepted, and of added tokens that mark tools."""
    added = tokenizer.added_tokens_decoder
    names = {str(token): number for number, token in added.items() if len(str(token)) > 1 and str(token).strip()}
    special = {name: number for name, number in names.items() if added[number].special}
    every = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    special |= {name: number for name, number in every if len(name) > 1}
    for name in THINKING:
        special.pop(name, None)
    return special, {name: number for name, number in names.items() if "tool" in name.lower()}


def _shielded(
    tokenizer: Any, message: dict[str, Any], special: dict[str, int], of_tools: dict[str, int], mark: str
) -> dict[str, Any]:
    """Return the message with the character `mark` within every special token that it spells, to be tokenised apart.

    Marks of tools are broken up, too, in what users and tools say; a system prompt may rightly speak of them.
    """
    names = {**special, **(of_tools if message["role"] in ("user", "tool") else {})}
    escaped = "|".join(map(re.escape, sorted(names)))
    starts = re.compile(rf"(?=(?:{escaped})).", re.DOTALL) if escaped else None
    added = tokenizer.added_tokens_decoder
    every = {**special, **of_tools}.values()
    normalized = {number for number in every if number in added and added[number].normalized}

    def broken(text: str) -> str:
        if starts is not None:
            text = starts.sub(rf"\g<0>{mark}", text)
        # A tokenizer looks for these in the normalised text, where a search for their names misses them.
        if normalized and any(normalized.intersection(_ids(tokenizer, piece)) for piece in text.split(mark)):
            return mark.join(text.replace(mark, ""))
        return text

    return {key: value if key == "role" else _map_strings(value, broken) for key, value in message.items()}


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: _map_strings(each, change) for key, each in value.items()}
    return [_map_strings(each, change) for each in value] if isinstance(value, list | tuple) else value


def _unused(text: str) -> str:
    """Return a character that does not occur in a text: one of Unicode's noncharacters, or one for private use."""
    taken = set(text)
    candidates = itertools.chain(range(0xFDD0, 0xFDF0), range(0x100000, 0x10FFFE))
    return next(character for character in map(chr, candidates) if character not in taken)


def _behind(tokenizer: Any, special: dict[str, int], piece: str) -> list[int]:
    """Return the ids of a piece as it is tokenised behind a special token: some tokenizers put a space at a start."""
    if not piece:
        return []
    guard = next(iter(special), "")
    ids = _ids(tokenizer, guard + piece)
    return ids[1:] if guard and ids[0] == special.get(guard) else _ids(tokenizer, piece)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return [int(token) for token in tokenizer(text, add_special_tokens=False).input_ids]

"""Finds the prompt of a record: the conversation up to a question of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlft.tasks.fields import FieldError, find_field, to_json
from rlft.tasks.rows import to_messages
from rlft.types import Message

PROMPT_FIELDS = ("messages", "prompt", "question", "text", "input", "query", "inputs")
"""The fields of the inputs that are tried in this order if the config names none."""


class NoQuestionError(ValueError):
    """A conversation that does not end with a question: the model went on after the result of a tool, say."""


def read_prompt(inputs: Any, field: str | None) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """Return the prompt without system messages, and the other fields of the inputs.

    What the system says is left to the environment, which says it again. Raises FieldError if there is no prompt, and
    NoQuestionError if the last message is not the user's.
    """
    content = to_json(inputs, "inputs")
    name, value = _find(content, field)
    messages = tuple(message for message in to_messages(value, name) if message["role"] != "system")
    if not messages:
        raise FieldError(f"has nothing but system messages in {name!r}")
    if messages[-1]["role"] != "user":
        raise NoQuestionError(f"ends with a message of role {messages[-1]['role']}")
    others = {key: each for key, each in content.items() if key != name} if isinstance(content, Mapping) else {}
    return messages, others


def _find(content: Any, field: str | None) -> tuple[str, Any]:
    """Return the name and value of the prompt's field; inputs that are no object are the prompt themselves."""
    if not isinstance(content, Mapping):
        return "inputs", content
    if field is not None:
        return field, find_field(content, field)
    for name in PROMPT_FIELDS:
        if content.get(name) is not None:
            return name, content[name]
    raise FieldError(f"has no prompt: none of the fields {', '.join(PROMPT_FIELDS)}")


def answer_text(output: Any) -> str | None:
    """Return the text that a model answered; `None` if the output holds none in a known form.

    A text, messages (the last one that has content), an object with `messages`, `content` or `response`, and an answer
    in OpenAI's form are known.
    """
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        found = (text for each in reversed(output) if (text := answer_text(each)) is not None)
        return next(found, None)
    if isinstance(output, Mapping):
        for name in ("messages", "choices", "message", "content", "text", "response", "answer"):
            if output.get(name) is not None:
                return answer_text(output[name])
    return None

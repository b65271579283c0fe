"""Renders messages with a chat template, and holds a small conversation to try templates with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import make_call
from rlft.contract.tools import ToolSpec
from rlft.errors import PolicyError
from rlft.messages import as_read

# The templates in rlft/chat/templates, by the names that `policy.chat_template` takes.
NAMES = ("qwen3", "llama3", "mistral", "gemma", "chatml")
DATE = "26 Jul 2024"  # held fixed in comparisons, since Llama's stock template writes today's date
TOOL = ToolSpec(
    "look_up",
    "Look a word up.",
    {"type": "object", "properties": {"word": {"type": "string", "description": "a word"}}, "required": ["word"]},
)
SYSTEM = {"role": "system", "content": "Answer in one word."}
QUESTION = [{"role": "user", "content": "Which colour is the sky?"}]


def stock_template(tokenizer: PreTrainedTokenizerBase, *, tools: bool = False) -> str | None:
    """Return the tokenizer's own template, `None` if it has none. Of several, `tools` chooses the one for tools."""
    if not tokenizer.chat_template:
        return None
    return tokenizer.get_chat_template(tools=[TOOL.to_json()] if tools else None)


def render(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    messages: Sequence[Any],
    tools: Sequence[Any] = (),
    *,
    add_generation_prompt: bool = False,
    **variables: Any,
) -> str:
    """Render messages with a template. `tools` are ToolSpecs or what `ToolSpec.to_json` returns.

    `variables` are passed to the template. Raises PolicyError if the template refuses the messages.
    """
    conversation = [_for_template(message) for message in messages]
    specs = [tool.to_json() if isinstance(tool, ToolSpec) else tool for tool in tools]
    try:
        text = tokenizer.apply_chat_template(
            conversation,
            tools=specs or None,
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
            **variables,
        )
    except Exception as error:  # a template is a program, which may raise anything
        raise PolicyError(
            f"the chat template does not take these messages ({', '.join(m['role'] for m in messages)}): {error}",
            where="policy.model",
            fix=how_to_fix(),
        ) from error
    return str(text)


def _for_template(message: Any) -> dict[str, Any]:
    """Return the message with the keys of its calls in one fixed order.

    Templates print them, and storage does not keep it.
    """
    result = as_read(message)
    calls = result.pop("tool_calls", None)
    if calls:
        functions = [(call["id"], call["function"]) for call in calls]
        result["tool_calls"] = [make_call(called["name"], called["arguments"], id) for id, called in functions]
    return result


def try_render(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    messages: Sequence[Any],
    tools: Sequence[ToolSpec],
    *,
    add_generation_prompt: bool,
) -> str | None:
    """Render as `render` does, with a fixed date; return `None` if the template refuses the messages."""
    try:
        return render(
            tokenizer, template, messages, tools, add_generation_prompt=add_generation_prompt, date_string=DATE
        )
    except PolicyError:
        return None


def how_to_fix() -> str:
    """Return what a user can do about a template that cannot be used, as the `fix` of an error."""
    return (
        "set policy.chat_template to a file with a template that keeps every earlier turn as it was, "
        f"or to one of {', '.join(NAMES)}"
    )

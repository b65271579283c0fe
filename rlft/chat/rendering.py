"""Messages to the text of a chat template, and a small conversation to try templates with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import make_call
from rlft.contract.tools import ToolSpec
from rlft.errors import PolicyError
from rlft.messages import as_read

NAMES = ("qwen3", "llama3", "mistral", "gemma", "chatml")
DATE = "26 Jul 2024"  # for comparisons: Llama's stock template writes today's
TOOL = ToolSpec(
    "look_up",
    "Look a word up.",
    {"type": "object", "properties": {"word": {"type": "string", "description": "a word"}}, "required": ["word"]},
)
SYSTEM = {"role": "system", "content": "Answer in one word."}
QUESTION = [{"role": "user", "content": "Which colour is the sky?"}]


def stock_template(tokenizer: PreTrainedTokenizerBase, *, tools: bool = False) -> str | None:
    """The tokenizer's own template, or `None`. Where it has several, the one for tools if there are any."""
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
    """Messages as the text of a template. `tools` are ToolSpecs or what `ToolSpec.to_json` gives.

    Raises PolicyError when the template does not take them.
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
    except Exception as error:  # a template is a program: it raises whatever its lines raise
        raise PolicyError(
            f"the chat template does not take these messages ({', '.join(m['role'] for m in messages)}): {error}",
            where="policy.model",
            fix=how_to_fix(),
        ) from error
    return str(text)


def _for_template(message: Any) -> dict[str, Any]:
    """A message whose calls have their keys in one order, which storage does not keep: templates print them."""
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
    """The rendering, or `None` where the template does not take the messages."""
    try:
        return render(
            tokenizer, template, messages, tools, add_generation_prompt=add_generation_prompt, date_string=DATE
        )
    except PolicyError:
        return None


def how_to_fix() -> str:
    """What to do about a template that does not serve."""
    return (
        "set policy.chat_template to a file with a template that keeps every earlier turn as it was, "
        f"or to one of {', '.join(NAMES)}"
    )

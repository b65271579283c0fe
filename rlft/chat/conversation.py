"""Opens a chat for a tokenizer: chooses the chat template and the format of tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from rlft.calls import make_call
from rlft.chat.base import AssistantTurn, Chat
from rlft.chat.declared import declared_format, declares_format
from rlft.chat.formats import FORMATS, HERMES, LLAMA3, LLAMA3_TAGGED, ToolFormat
from rlft.chat.marks import Marks
from rlft.chat.plain_chat import PlainChat
from rlft.chat.rendering import QUESTION, TOOL, render
from rlft.chat.template_chat import TemplateChat
from rlft.chat.templates import choose_template
from rlft.contract.tools import ToolSpec
from rlft.errors import PolicyError

__all__ = ["AssistantTurn", "Chat", "open_chat"]

_CALL = make_call(TOOL.name, {"word": "sky"}, "call00001")


def open_chat(
    tokenizer: PreTrainedTokenizerBase,
    tools: Sequence[ToolSpec] = (),
    *,
    tool_format: str = "auto",
    multi_turn: bool = True,
) -> Chat:
    """Return a chat for the model of this tokenizer, which is not changed.

    `tool_format` is `hermes`, `llama3`, `mistral`, `declared` (what the tokenizer's `response_template` says) or
    `auto`: the declared format if there is one, else the one that reads the calls which the template writes. Without a
    chat template contents are joined with newlines, and calls are in Hermes format.

    Raises PolicyError if several turns are wanted and the template rewrites earlier turns and is of no known family, if
    there are tools that it does not describe or whose calls it writes in no known format, and if the description of a
    tool contains a special token.
    """
    if tool_format not in ("auto", "declared", *FORMATS):
        raise PolicyError(
            f"tool_format={tool_format!r} is unknown",
            where="harness.tool_format",
            fix=f"use one of auto, declared, {', '.join(FORMATS)}",
        )
    if tool_format == "declared" and not declares_format(tokenizer):
        raise PolicyError(
            "the tokenizer declares no form of tool calls",
            where="harness.tool_format",
            fix="use auto, or name the form",
        )
    _check_descriptions(tokenizer, tools)
    template = choose_template(tokenizer, tools=bool(tools), multi_turn=multi_turn)
    if template is None:
        formats = _candidates(tokenizer, "", tools, tool_format)
        return PlainChat(tokenizer, formats[0])
    formats = _candidates(tokenizer, _opening(tokenizer, template, tools), tools, tool_format)
    for each in formats:
        chat = TemplateChat(tokenizer, template, tools, each)
        if _reads_own_calls(chat):
            is_bare = each is LLAMA3 and not tools  # bare JSON is an answer then, and only a tagged one a call
            return TemplateChat(tokenizer, template, tools, LLAMA3_TAGGED) if is_bare else chat
    if tools:
        raise PolicyError(
            f"the chat template writes tool calls in a form that is not {' or '.join(each.name for each in formats)}",
            where="policy.model",
            fix="set policy.chat_template to a template that writes one of these forms",
        )
    return TemplateChat(tokenizer, template, tools, formats[0])


def _candidates(
    tokenizer: PreTrainedTokenizerBase, opening: str, tools: Sequence[ToolSpec], tool_format: str
) -> list[ToolFormat]:
    """Return the formats that come into question, the preferred one first.

    `opening` is empty without a chat template.
    """
    if tool_format in FORMATS:
        return [FORMATS[tool_format]]
    declared = [declared_format(tokenizer, opening, tools)] if declares_format(tokenizer) else []
    if tool_format == "declared":
        return declared
    others = [HERMES] if not opening else [*FORMATS.values()]
    return [*declared, *others]


def _opening(tokenizer: PreTrainedTokenizerBase, template: str, tools: Sequence[ToolSpec]) -> str:
    """Return a rendered prompt, for the reader of a declared format."""
    return render(tokenizer, template, QUESTION, tools, add_generation_prompt=True)


def _reads_own_calls(chat: TemplateChat) -> bool:
    """Return whether the chat's format reads the call that its template writes."""
    try:
        turn = chat.read(chat.write({"role": "assistant", "content": "", "tool_calls": [_CALL]}))
    except PolicyError:
        return False
    return [call["function"] for call in turn.tool_calls] == [_CALL["function"]]


def _check_descriptions(tokenizer: PreTrainedTokenizerBase, tools: Sequence[ToolSpec]) -> None:
    marks = Marks(tokenizer)
    for tool in tools:
        if found := marks.find(json.dumps(tool.to_json(), ensure_ascii=False)):
            raise PolicyError(
                f"its description has {found.group()!r} in it, a special token of the model",
                where=f"tool {tool.name}",
                fix="describe the tool without it",
            )

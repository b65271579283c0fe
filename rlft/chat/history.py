"""Checks whether a chat template keeps history: whether earlier turns stay as they were when more messages follow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import make_call
from rlft.chat.rendering import QUESTION, SYSTEM, TOOL, render
from rlft.contract.tools import ToolSpec
from rlft.errors import PolicyError
from rlft.types import ToolCall


def check_prefix(tokenizer: PreTrainedTokenizerBase, template: str, *, tools: bool = True) -> str | None:
    """Return what is wrong with how a template renders earlier turns; `None` if it keeps them as they were.

    Conversations with thinking in earlier turns, system prompts and, with `tools`, several calls in a turn and their
    results are rendered up to the beginning and up to the end of each turn of the assistant. Every such text must be a
    prefix of the next one, the tokens up to the end of a turn must be a prefix of the tokens of the next, and what
    assistant and tools said must be in the last. (At the beginning of a turn the tokens may differ, as the model
    samples its own.)
    """
    for messages in _conversations(tools=tools):
        specs = (TOOL,) if tools else ()
        try:
            texts = _renderings(tokenizer, template, messages, specs)
        except PolicyError as error:
            return error.what
        for before, after in itertools.pairwise(texts):
            if not after.startswith(before):
                return f"the chat template rewrites earlier turns: {_difference(before, after)}"
        for before, after in zip(texts[1::2], texts[2::2], strict=False):
            ids = [tokenizer(text, add_special_tokens=False).input_ids for text in (before, after)]
            if ids[1][: len(ids[0])] != ids[0]:
                return f"the end of a turn is another token when more follows: {before[-20:]!r}"
        if lost := [text for text in _said(messages) if text not in texts[-1]]:
            return f"the chat template leaves out what was said: {lost[0]!r}"
        if tools and TOOL.name not in texts[0]:
            return "the chat template does not describe tools"
    return None


def _conversations(*, tools: bool) -> list[list[dict[str, Any]]]:
    """Two conversations, without and with a system prompt, with thinking and, if there are tools, with calls.

    One turn has two calls beside its text, one has a call and no text.
    """
    thoughts = "<think>\nThought {0}.\n</think>\n\nAnswer {0}."
    turns: list[dict[str, Any]] = [*QUESTION]
    if tools:
        turns += [
            {"role": "assistant", "content": thoughts.format("one"), "tool_calls": [_call(1), _call(2)]},
            _result(1),
            _result(2),
        ]
    turns += [
        {"role": "assistant", "content": thoughts.format("two")},
        {"role": "user", "content": "And at night?"},
        {"role": "assistant", "content": thoughts.format("three")},
        {"role": "user", "content": "And at dawn?"},
    ]
    if tools:
        turns += [{"role": "assistant", "content": "", "tool_calls": [_call(3)]}, _result(3)]
    turns += [{"role": "assistant", "content": thoughts.format("four")}]
    return [turns, [SYSTEM, *turns]]


def _call(number: int) -> ToolCall:
    return make_call(TOOL.name, {"word": f"word{number}"}, f"call{number:05d}")


def _result(number: int) -> dict[str, Any]:
    return {"role": "tool", "content": f"result{number}", "name": TOOL.name, "tool_call_id": f"call{number:05d}"}


def _said(messages: Sequence[dict[str, Any]]) -> list[str]:
    contents = [m["content"] for m in messages if m["role"] in ("assistant", "tool")]
    return contents + [call["function"]["arguments"]["word"] for m in messages for call in m.get("tool_calls", ())]


def _renderings(
    tokenizer: PreTrainedTokenizerBase, template: str, messages: Sequence[dict[str, Any]], tools: Sequence[ToolSpec]
) -> list[str]:
    """For every turn of the assistant, in order: the rendering up to its beginning, and up to its end."""
    texts = []
    for end, message in enumerate(messages):
        if message["role"] == "assistant":
            texts.append(render(tokenizer, template, messages[:end], tools, add_generation_prompt=True))
            texts.append(render(tokenizer, template, messages[: end + 1], tools))
    return texts


def _difference(before: str, after: str) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    return f"{before[same : same + 40]!r} becomes {after[same : same + 40]!r}"

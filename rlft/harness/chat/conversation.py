"""Chats: conversations of several turns as token ids, in which sampled tokens stay as they are.

What was sampled is never tokenised again; only what the model reads next is rendered and appended:

    ids = chat.prompt(messages)
    while True:
        sampled = engine(ids)
        turn = chat.read(sampled)
        ids += sampled + chat.continuation(results_of(turn.tool_calls), sampled[-1])

`open_chat` chooses template and format of calls for a tokenizer. No text of a user or a tool can become a special token
(`rlft.harness.chat.marks`).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.environments.contract.marks import ToolSpec
from rlft.errors import PolicyError
from rlft.harness.chat.formats import FORMATS, LLAMA3, LLAMA3_TAGGED, AssistantTurn, ToolFormat
from rlft.harness.chat.marks import Marks
from rlft.harness.chat.templates import QUESTION, TOOL, choose_template, how_to_fix, render
from rlft.messages import MAX_CHARACTERS, make_call
from rlft.models.tokens import render_prompt
from rlft.types import Message, ToolCall
from rlft.types.thinking import CHANNELS, is_open, part

_OPENED = "<think>\n"
_OPENING = 16  # tokens at the end of a prompt in which that stands
_CALL = make_call(TOOL.name, {"word": "sky"}, "call00001")


class Chat(ABC):
    """Base class of chats, which turn messages into token ids and sampled tokens into turns.

    `stop_token_ids` are the tokens that end a turn: an engine must stop at each of them. `format` is that of tool
    calls, whose marks are kept in what is read, also where they are special tokens.
    """

    stop_token_ids: tuple[int, ...]

    def __init__(self, tokenizer: PreTrainedTokenizerBase, tool_format: ToolFormat) -> None:
        self._tokenizer = tokenizer
        self.format = tool_format
        self._marks = Marks(tokenizer)
        self._cached_prompt = lru_cache(maxsize=256)(lambda key: tuple(self._prompt(json.loads(key))))
        self._special = {i for name, i in self._marks.special.items() if name not in CHANNELS}
        of_calls = {self._marks.special.get(name) for name in tool_format.marks}
        self._dropped = self._special - of_calls

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a prompt that describes the tools, up to where the model's turn begins."""
        return list(self._cached_prompt(json.dumps(list(messages))))  # the samples of a group share their prompt

    @abstractmethod
    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        """Make what `prompt` returns, which is cached."""

    @abstractmethod
    def continuation(self, messages: Sequence[Message], last_token: int) -> list[int]:
        """Return the token ids that follow a sampled turn: the rest of its end, these messages, the next turn's start.

        `last_token` is the last sampled token of the turn. After the template's own end token little is left of the
        turn's end (a newline, say). After any other token, as in a turn that the length limit cut off, all of it
        follows.
        """

    @abstractmethod
    def write(self, message: Message) -> list[int]:
        """Return the tokens that a model would have sampled for an assistant's message, with the end token."""

    def opens_thought(self, prompt: Sequence[int]) -> bool:
        """Return whether the tokens of a prompt end with an open thought, so that the model begins within it."""
        return is_open(self.decode(prompt[-_OPENING:]))

    def text(self, token_ids: Sequence[int], *, opened: bool = False) -> str:
        """Return a sampled turn as one text, thoughts and all, without special tokens.

        If its prompt has `opened` a thought, the text begins with `<think>`.
        """
        return _OPENED * opened + self.decode([int(i) for i in token_ids if i not in self._special])

    def read(self, token_ids: Sequence[int], *, opened: bool = False) -> AssistantTurn:
        """Read a sampled turn, with its stop token or without. Whatever the model wrote, nothing is raised.

        `opened` is that of `text`. A call has the id that the model wrote, or else nine characters made of the turn's
        tokens and the call's place, so that equal turns have equal ids.
        """
        ids = [int(i) for i in token_ids]
        while ids and ids[-1] in self.stop_token_ids:
            ids.pop()
        text = _OPENED * opened + self.decode([i for i in ids if i not in self._dropped])
        if len(text) > MAX_CHARACTERS:
            why = f"the turn is longer than {MAX_CHARACTERS} characters and was not read"
            return AssistantTurn(text, (), ({"text": "", "error": why, "position": None},))
        thoughts = part(text).thinking  # calls in thoughts are thoughts
        parsed = self.format.parse(text[len(thoughts) :])
        stem = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:7]
        taken: set[str] = set()
        calls = tuple(_with_id(call, taken, f"{stem}{place:02d}") for place, call in enumerate(parsed.tool_calls))
        return replace(parsed, content=thoughts + parsed.content, tool_calls=calls)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the exact text of token ids, with special tokens."""
        return str(
            self._tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


def _with_id(call: ToolCall, taken: set[str], default: str) -> ToolCall:
    identity = call["id"] if call["id"] and call["id"] not in taken else default
    taken.add(identity)
    return {**call, "id": identity}


_ANSWER = "An answer that is nowhere else."
_END_FOR_TOOLS = "<|eom_id|>"  # Llama 3 ends a turn with this token instead if it waits for a tool's result


class TemplateChat(Chat):
    """A chat that renders with one template, which must keep earlier turns as they were.

    The end token is the first special token that the template writes after an assistant's text. What comes after a
    sampled turn is found by rendering a question, an answer and the new messages, and cutting off the rendering of the
    first two. Raises PolicyError if the template leaves out answers.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template: str,
        tools: Sequence[ToolSpec],
        tool_format: ToolFormat,
    ) -> None:
        self._template = template
        self._tools = [tool.to_json() for tool in tools]
        self._tokenizer = tokenizer
        self._opening = self._text(QUESTION, add_generation_prompt=True)
        super().__init__(tokenizer, tool_format)
        answered = self._text([*QUESTION, {"role": "assistant", "content": _ANSWER}])
        _, answer, self._closing = answered.rpartition(_ANSWER)
        if not answer:
            raise PolicyError("the chat template leaves out answers", where="policy.model", fix=how_to_fix())
        found = self._marks.find(self._closing)
        self._end = found.group() if found else ""
        self._before_end = self._closing[: found.start()] if found else ""
        self._end_id = self._marks.special.get(self._end)
        end_for_tools = self._marks.special.get(_END_FOR_TOOLS)
        self._ends = (self._end_id, end_for_tools)
        stops = (self._end_id, tokenizer.eos_token_id, end_for_tools)
        self.stop_token_ids = tuple(dict.fromkeys(stop for stop in stops if isinstance(stop, int)))

    def _text(self, messages: Sequence[Any], *, add_generation_prompt: bool = False) -> str:
        return render(
            self._tokenizer, self._template, messages, self._tools, add_generation_prompt=add_generation_prompt
        )

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        shielded, mark = self._marks.shield(messages)
        return self._marks.encode(self._text(shielded, add_generation_prompt=True), mark=mark)

    def continuation(self, messages: Sequence[Message], last_token: int) -> list[int]:
        """See `Chat`. It takes the same time however long the conversation is. Raises PolicyError as `render` does."""
        shielded, mark = self._marks.shield(messages)
        turn = [*QUESTION, _answer_to(shielded)]
        before, after = self._text(turn), self._text([*turn, *shielded], add_generation_prompt=True)
        if not after.startswith(before):
            raise PolicyError("the chat template rewrites earlier turns", where="policy.model", fix=how_to_fix())
        rest = self._behind_end(before) + after[len(before) :]
        ids = self._marks.encode(rest, mark=mark, after=self._end)
        if self._end_id is None or last_token in self._ends:
            return ids
        return [*self._marks.encode(self._before_end, after=self._end), self._end_id, *ids]

    def write(self, message: Message) -> list[int]:
        """See `Chat`. Tool calls are written by the template."""
        shielded, mark = self._marks.shield([message])
        ids = self._marks.encode(self.turn_text(shielded[0]), mark=mark, after=self._end)
        eos = self._tokenizer.eos_token_id
        return [*ids, eos] if self._end_id is None and isinstance(eos, int) else ids

    def turn_text(self, message: Any) -> str:
        """Return the text that a model samples for an assistant's message, with the end token. Raises PolicyError."""
        text = self._text([*QUESTION, message])
        if not text.startswith(self._opening):
            raise PolicyError(
                "the chat template opens a turn otherwise than its generation prompt does",
                where="policy.model",
                fix=how_to_fix(),
            )
        return text[len(self._opening) : len(text) - len(self._behind_end(text))]

    def _behind_end(self, text: str) -> str:
        """Return what the template writes after the last end token of a text, which no model samples."""
        return text.rpartition(self._end)[2] if self._end else self._closing


def _answer_to(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a turn of the assistant that these messages can follow.

    It calls each tool whose result they begin with.
    """
    calls = []
    for message in messages:
        if message["role"] != "tool":
            break
        name, identity = message.get("name") or "tool", message.get("tool_call_id") or "call00000"
        calls.append(make_call(name, {}, identity))
    return {"role": "assistant", "content": _ANSWER, **({"tool_calls": calls} if calls else {})}


class PlainChat(Chat):
    """A chat that joins the contents with newlines. Tools are not described; a turn ends with the end token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, tool_format: ToolFormat) -> None:
        super().__init__(tokenizer, tool_format)
        eos = tokenizer.eos_token_id
        self.stop_token_ids = (eos,) if isinstance(eos, int) else ()

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        return render_prompt(self._tokenizer, messages)

    def continuation(self, messages: Sequence[Message], last_token: int) -> list[int]:
        """Return a newline, the contents joined with newlines, and a newline, whatever token came before."""
        del last_token
        shielded, mark = self._marks.shield(messages)
        lines = ["", *(message["content"] for message in shielded), ""]
        return self._marks.encode("\n".join(lines), mark=mark)

    def write(self, message: Message) -> list[int]:
        """See `Chat`. Tool calls are written as text, in the format of the chat."""
        if not self.stop_token_ids:
            raise PolicyError(
                "the tokenizer has no end token, so no turn could end",
                where="policy.model",
                fix="set eos_token in the model's tokenizer_config.json",
            )
        shielded, mark = self._marks.shield([message])
        text = self.format.write(shielded[0]["content"], shielded[0].get("tool_calls", []))
        return [*self._marks.encode(text, mark=mark), self.stop_token_ids[0]]


def open_chat(
    tokenizer: PreTrainedTokenizerBase,
    tools: Sequence[ToolSpec] = (),
    *,
    tool_format: str = "auto",
    multi_turn: bool = True,
) -> Chat:
    """Return a chat for the model of this tokenizer, which is not changed.

    `tool_format` is `hermes`, `llama3`, `mistral` or `auto`: the one that reads the calls which the template writes.
    Without a chat template contents are joined with newlines, and calls are in Hermes format.

    Raises PolicyError if several turns are wanted and the template rewrites earlier turns and is of no known family, if
    there are tools that it does not describe or whose calls it writes in no known format, and if the description of a
    tool contains a special token.
    """
    if tool_format not in ("auto", *FORMATS):
        raise PolicyError(
            f"tool_format={tool_format!r} is unknown",
            where="harness.tool_format",
            fix=f"use one of auto, {', '.join(FORMATS)}",
        )
    _check_descriptions(tokenizer, tools)
    template = choose_template(tokenizer, tools=bool(tools), multi_turn=multi_turn)
    formats = [FORMATS[tool_format]] if tool_format in FORMATS else [*FORMATS.values()]
    if template is None:
        return PlainChat(tokenizer, formats[0])
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

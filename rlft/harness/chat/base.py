"""The interface of a chat: conversations of several turns as token ids, in which sampled tokens stay as they are.

What was sampled is never tokenised again; only what the model reads next is rendered and appended:

    ids = chat.prompt(messages)
    while True:
        sampled = engine(ids)
        turn = chat.read(sampled)
        ids += sampled + chat.continuation(results_of(turn.tool_calls), sampled[-1])

No text of a user or a tool can become a special token (`rlft.harness.chat.marks`).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from rlft.harness.chat.formats import Parsed, ToolFormat
from rlft.harness.chat.marks import Marks
from rlft.messages import MAX_CHARACTERS
from rlft.types import InvalidToolCall, Message, ToolCall
from rlft.types.thinking import CHANNELS, is_open, part

_OPENED = "<think>\n"
_OPENING = 16  # tokens at the end of a prompt in which that stands


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """A sampled turn, read. `content` is the text without tool calls and special tokens, but with the thinking.

    `invalid_tool_calls` are the calls that cannot be read, with the text that the model wrote. A call's id is the one
    that the model wrote, or else nine characters made of the turn's tokens and the call's place, so that equal turns
    have equal ids.
    """

    content: str
    tool_calls: tuple[ToolCall, ...]
    invalid_tool_calls: tuple[InvalidToolCall, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences for the model, one about each call that cannot be read."""
        return tuple(each["error"] for each in self.invalid_tool_calls)

    def message(self) -> Message:
        """Return the turn as a message of role `assistant`."""
        message: Message = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = list(self.tool_calls)
        if self.invalid_tool_calls:
            message["invalid_tool_calls"] = list(self.invalid_tool_calls)
        return message


class Chat(ABC):
    """Base class of chats, which turn messages into token ids and sampled tokens into turns.

    `stop_token_ids` are the tokens that end a turn: an engine must stop at each of them.
    """

    stop_token_ids: tuple[int, ...]

    def __init__(self, tokenizer: PreTrainedTokenizerBase, tool_format: ToolFormat) -> None:
        self._tokenizer = tokenizer
        self._format = tool_format
        self._marks = Marks(tokenizer)
        self._cached_prompt = lru_cache(maxsize=256)(lambda key: tuple(self._prompt(json.loads(key))))
        self._special = {i for name, i in self._marks.special.items() if name not in CHANNELS}
        of_calls = {self._marks.special.get(name) for name in tool_format.marks}
        # The marks of a declared form are not known here, so its parser gets all of them.
        self._dropped = set() if tool_format.name == "declared" else self._special - of_calls

    @property
    def tool_format(self) -> str:
        """The name of the format in which tool calls are read."""
        return self._format.name

    @property
    def tool_marks(self) -> tuple[str, ...]:
        """The marks of that format: they are kept in what is read, also where they are special tokens."""
        return self._format.marks

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

        `opened` is that of `text`.
        """
        ids = [int(i) for i in token_ids]
        while ids and ids[-1] in self.stop_token_ids:
            ids.pop()
        text = self.decode([i for i in ids if i not in self._dropped])
        text = text if self._format.name == "declared" else _OPENED * opened + text
        if len(text) > MAX_CHARACTERS:
            why = f"the turn is longer than {MAX_CHARACTERS} characters and was not read"
            return AssistantTurn(text, (), ({"text": "", "error": why, "position": None},))
        parsed = self._parse(text)
        stem = hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:7]
        taken: set[str] = set()
        calls = tuple(_with_id(call, taken, f"{stem}{place:02d}") for place, call in enumerate(parsed.calls))
        return AssistantTurn(parsed.content, calls, parsed.invalid)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the exact text of token ids, with special tokens."""
        return str(
            self._tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def _parse(self, text: str) -> Parsed:
        """Find the calls in a text, in its answer alone: those in thoughts are thoughts."""
        if self._format.name == "declared":
            parsed = self._format.parse(text)
            content = self._marks.strip(parsed.content)
            return replace(parsed, content=content)
        thoughts = part(text).thinking
        parsed = self._format.parse(text[len(thoughts) :])
        return replace(parsed, content=thoughts + parsed.content)


def _with_id(call: ToolCall, taken: set[str], default: str) -> ToolCall:
    identity = call["id"] if call["id"] and call["id"] not in taken else default
    taken.add(identity)
    return {**call, "id": identity}

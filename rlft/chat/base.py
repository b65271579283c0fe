"""The interface of a chat: conversations of several turns as token ids, in which sampled tokens stay as they are.

What was sampled is never tokenised again; only what the model reads next is rendered and appended:

    ids = chat.prompt(messages)
    while True:
        sampled = engine(ids)
        turn = chat.read(sampled)
        ids += sampled + chat.continuation(results_of(turn.tool_calls), sampled[-1])

No text of a user or a tool can become a special token (`Marks`). A tokenizer reads `<|im_end|>` as one wherever it
stands, so a web page could end the tool's turn and open the user's. Here a break, which is a character that occurs in
no message, is put after the first character of such a text inside a content. The template is rendered with the breaks,
and the result is tokenised piece by piece between them. The text stays the same to the letter, but the special token
cannot arise.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import MAX_CHARACTERS
from rlft.chat.formats import Parsed, ToolFormat
from rlft.thinking import CHANNELS, MARKS, is_open, part
from rlft.types import InvalidToolCall, Message, ToolCall

_OUTSIDE = ("user", "tool")  # roles whose text may come from anywhere


class Marks:
    """Knows the special tokens of a tokenizer, and tokenises texts in which these cannot be forged.

    `special` maps the text of each special token, those of thinking excepted, to its id.

    Special tokens are broken up in every message. Marks of tools that are ordinary added tokens (Qwen's
    `<tool_response>`) are broken up only in messages of users and tools, because a system prompt may rightly speak of
    them. Marks of thinking are left alone, since they open no turn.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        names = {str(token): number for number, token in added.items() if len(str(token)) > 1 and str(token).strip()}
        self.special = {name: number for name, number in names.items() if added[number].special}
        self.special |= {
            name: number
            for name, number in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
            if len(name) > 1
        }
        for name in MARKS:
            self.special.pop(name, None)
        of_tools = {name: number for name, number in names.items() if "tool" in name.lower()}
        self._everywhere = _starts(self.special)
        self._outside = _starts(self.special | of_tools)
        # A tokenizer looks for these in the normalised text, where a search for their names in the text misses them.
        self._normalized = frozenset(
            n for n in (self.special | of_tools).values() if n in added and added[n].normalized
        )

    def strip(self, text: str) -> str:
        """Return the text without the names of special tokens."""
        return re.sub("|".join(map(re.escape, self.special)), "", text) if self.special else text

    def find(self, text: str) -> re.Match[str] | None:
        """Find the first special token in a text; where several begin there, the longest."""
        names = sorted(self.special, key=len, reverse=True)
        return re.search("|".join(map(re.escape, names)), text) if names else None

    def shield(self, messages: Sequence[Message | dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
        """Return the messages with a break in every forged special token, and the break, a single character."""
        mark = _unused(json.dumps(list(messages), ensure_ascii=False))
        shielded = []
        for message in messages:
            starts = self._outside if message["role"] in _OUTSIDE else self._everywhere
            body = {key: value for key, value in message.items() if key != "role"}
            shielded.append({"role": message["role"], **_map_strings(body, self._breaker(starts, mark))})
        return shielded, mark

    def _breaker(self, starts: re.Pattern[str] | None, mark: str) -> Callable[[str], str]:
        def broken(text: str) -> str:
            if starts is not None:
                text = starts.sub(rf"\g<0>{mark}", text)
            if self._normalized and any(self._normalized.intersection(self._ids(p)) for p in text.split(mark)):
                return mark.join(text.replace(mark, ""))  # a break between all characters
            return text

        return broken

    def encode(self, text: str, *, mark: str = "", after: str = "") -> list[int]:
        """Return the token ids of a text, tokenised piece by piece between the breaks `mark`, which are left out.

        `after` is the special token that stands before the text. Each piece is tokenised behind a special token,
        because some tokenizers put a space in front of what stands at the start of a sequence.
        """
        first, *others = text.split(mark) if mark else [text]
        ids = self._behind(after, first) if after else self._ids(first)
        for piece in others:
            ids += self._behind(after or next(iter(self.special), ""), piece)
        return ids

    def _behind(self, guard: str, piece: str) -> list[int]:
        """Return the ids of a piece as it is tokenised behind the special token `guard`, without that token's id."""
        if not piece:
            return []
        ids = self._ids(guard + piece)
        return ids[1:] if guard and ids[0] == self.special.get(guard) else self._ids(piece)

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self._tokenizer(text, add_special_tokens=False).input_ids]


def _starts(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for the first character of every occurrence of a name, also of occurrences that overlap."""
    escaped = "|".join(map(re.escape, sorted(names)))
    return re.compile(rf"(?=(?:{escaped})).", re.DOTALL) if escaped else None


def _unused(text: str) -> str:
    """Return a character that does not occur in a text: one of Unicode's noncharacters, or one for private use."""
    candidates = itertools.chain(range(0xFDD0, 0xFDF0), range(0x100000, 0x10FFFE))
    taken = set(text)  # otherwise a text that holds all the candidates would be searched once for each
    return next(character for character in map(chr, candidates) if character not in taken)


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key) if isinstance(key, str) else key: _map_strings(each, change) for key, each in value.items()}
    return [_map_strings(each, change) for each in value] if isinstance(value, list | tuple) else value


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

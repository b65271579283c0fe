"""Text to tokens, where what a user or a tool wrote can never become a mark of the conversation.

A tokenizer reads `<|im_end|>` as one special token wherever it stands, so a web page could end the tool's turn and open
the user's. Here such a text inside a content is broken after its first character by a break, a character that occurs in
no content; the template is rendered with it, and the text is tokenised piece by piece. The text stays the same to the
letter, the special token cannot arise. Special tokens are broken in every message; marks of tools that are ordinary
added tokens (Qwen's `<tool_response>`) in the messages of users and tools, because system prompts speak of them
rightly. Marks of thinking are left alone: they open no turn.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.types import Message

THINKING = ("<think>", "</think>", "[THINK]", "[/THINK]")
_OUTSIDE = ("user", "tool")


class Marks:
    """The special tokens of a tokenizer, and how texts are tokenised without forging them."""

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
        for name in THINKING:
            self.special.pop(name, None)
        of_tools = {name: number for name, number in names.items() if "tool" in name.lower()}
        self._everywhere = _starts(self.special)
        self._outside = _starts(self.special | of_tools)
        # A normalized mark is found in the normalised text, where no search for its name finds it.
        self._normalized = frozenset(
            n for n in (self.special | of_tools).values() if n in added and added[n].normalized
        )

    def strip(self, text: str) -> str:
        """A text without the names of special tokens."""
        return re.sub("|".join(map(re.escape, self.special)), "", text) if self.special else text

    def find(self, text: str) -> re.Match[str] | None:
        """The first special token in a text."""
        names = sorted(self.special, key=len, reverse=True)
        return re.search("|".join(map(re.escape, names)), text) if names else None

    def shield(self, messages: Sequence[Message | dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
        """The messages with a break in every forged mark, and the break."""
        mark = _unused(json.dumps(list(messages), ensure_ascii=False))
        shielded = []
        for message in messages:
            starts = self._outside if message["role"] in _OUTSIDE else self._everywhere
            body = {key: value for key, value in message.items() if key != "role"}
            shielded.append({"role": message["role"], **_map_strings(body, self._breaker(starts, mark))})
        return shielded, mark

    def shield_text(self, text: str, mark: str) -> str:
        """One text that comes from outside, with a break in every forged mark."""
        return self._breaker(self._outside, mark)(text)

    def _breaker(self, starts: re.Pattern[str] | None, mark: str) -> Callable[[str], str]:
        def broken(text: str) -> str:
            if starts is not None:
                text = starts.sub(rf"\g<0>{mark}", text)
            if self._normalized and any(self._normalized.intersection(self._ids(p)) for p in text.split(mark)):
                return mark.join(text.replace(mark, ""))
            return text

        return broken

    def encode(self, text: str, *, mark: str = "", after: str = "") -> list[int]:
        """Token ids of a text; broken where `mark` stands. `after` is the special token that stands before it.

        Tokenised behind a special token, a text gets no space in front that only the start of a sequence gets.
        """
        first, *others = text.split(mark) if mark else [text]
        ids = self._behind(after, first) if after else self._ids(first)
        for piece in others:
            ids += self._behind(after or next(iter(self.special), ""), piece)
        return ids

    def _behind(self, guard: str, piece: str) -> list[int]:
        if not piece:
            return []
        ids = self._ids(guard + piece)
        return ids[1:] if guard and ids[0] == self.special.get(guard) else self._ids(piece)

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self._tokenizer(text, add_special_tokens=False).input_ids]


def _starts(names: Iterable[str]) -> re.Pattern[str] | None:
    """The first character of every occurrence of a name, overlapping ones too."""
    escaped = "|".join(map(re.escape, sorted(names)))
    return re.compile(rf"(?=(?:{escaped})).", re.DOTALL) if escaped else None


def _unused(text: str) -> str:
    """A character that does not occur in a text; the first ones are no characters to Unicode."""
    candidates = itertools.chain(range(0xFDD0, 0xFDF0), range(0x100000, 0x10FFFE))
    taken = set(text)  # a text may hold all the candidates, and would be searched for each
    return next(character for character in map(chr, candidates) if character not in taken)


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key) if isinstance(key, str) else key: _map_strings(each, change) for key, each in value.items()}
    return [_map_strings(each, change) for each in value] if isinstance(value, list | tuple) else value

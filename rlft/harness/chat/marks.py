"""Special tokens, which no text of a user or a tool can become.

A tokenizer reads `<|im_end|>` as one wherever it stands, so a web page could end the tool's turn and open the user's.
Here a break, which is a character that occurs in no message, is put after the first character of such a text inside a
content. The template is rendered with the breaks, and the result is tokenised piece by piece between them. The text
stays the same to the letter, but the special token cannot arise.

This file imports nothing of rlft: a version in MLflow's registry has a copy of it, to be asked as in training.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

THINKING = (
    "<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "◁think▷", "◁/think▷",
    "<|START_THINKING|>", "<|END_THINKING|>",
)  # fmt: skip
"""The marks around a thought. They open no turn, so a text may hold them."""
_OUTSIDE = ("user", "tool")  # roles whose text may come from anywhere


class Marks:
    """Knows the special tokens of a tokenizer, and tokenises texts in which these cannot be forged.

    `special` maps the text of each special token, those of thinking excepted, to its id.

    Special tokens are broken up in every message. Marks of tools that are ordinary added tokens (Qwen's
    `<tool_response>`) are broken up only in messages of users and tools, because a system prompt may rightly speak of
    them. Marks of thinking are left alone, since they open no turn.
    """

    def __init__(self, tokenizer: Any) -> None:
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
        # A tokenizer looks for these in the normalised text, where a search for their names in the text misses them.
        self._normalized = frozenset(
            n for n in (self.special | of_tools).values() if n in added and added[n].normalized
        )

    def find(self, text: str) -> re.Match[str] | None:
        """Find the first special token in a text; where several begin there, the longest."""
        names = sorted(self.special, key=len, reverse=True)
        return re.search("|".join(map(re.escape, names)), text) if names else None

    def shield(self, messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
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

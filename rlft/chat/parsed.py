"""What is found in the text of a turn: content, calls, and calls that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlft.calls import MAX_CALLS, CallError, as_call
from rlft.types import InvalidToolCall, ToolCall


@dataclass(frozen=True, slots=True)
class Parsed:
    """A turn taken apart into content and calls. A call has the id that the model wrote, or else an empty one.

    `invalid` are the calls that could not be read, with what the model wrote, no letter of which is in the content.
    """

    content: str
    calls: tuple[ToolCall, ...] = ()
    invalid: tuple[InvalidToolCall, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences for the model, one about each call that could not be read."""
        return tuple(each["error"] for each in self.invalid)


class Reading:
    """Collects the calls of one text in their order, and those that cannot be read with their text.

    `start` and `end` are indices in the text: they bound what the model wrote for a call, marks included.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._calls: list[ToolCall] = []
        self._invalid: list[InvalidToolCall] = []
        self._kept_to = 0
        self.is_full = False

    @property
    def place(self) -> int:
        """The number of the next call, from 1."""
        return len(self._calls) + len(self._invalid) + 1

    def takes_another(self, start: int) -> bool:
        """Return whether one more call may be read. If not, that becomes an invalid call the first time."""
        if self.place > MAX_CALLS and not self.is_full:
            self.is_full = True
            self.note(f"only the first {MAX_CALLS} tool calls of a turn are read", start, len(self._text))
        return not self.is_full

    def note(self, sentence: str, start: int, end: int, position: int | None = None) -> None:
        """Add an invalid call with this sentence. Each part of the text is kept only once, with its first problem."""
        begin = max(start, min(self._kept_to, end))
        self._kept_to = max(self._kept_to, end)
        place = None if position is None or position < begin else min(position, end) - begin
        self._invalid.append({"text": self._text[begin:end], "error": sentence, "position": place})

    def problem(self, what: object, start: int, end: int) -> None:
        """Add an invalid call whose sentence begins with the number of the call."""
        position = what.position if isinstance(what, CallError) else None
        self.note(f"tool call {self.place} {what}", start, end, position)

    def add(self, value: Any, start: int, end: int) -> None:
        """Add a decoded value as a call, or as an invalid one."""
        try:
            self._calls.append(as_call(value))
        except CallError as error:
            self.problem(error, start, end)

    def done(self, content: str) -> Parsed:
        """Return what was collected, with the content."""
        return Parsed(content, tuple(self._calls), tuple(self._invalid))

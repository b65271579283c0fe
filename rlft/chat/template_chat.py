"""The chat of a model with a chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.calls import make_call
from rlft.chat.base import Chat
from rlft.chat.formats import ToolFormat
from rlft.chat.rendering import QUESTION, how_to_fix, render
from rlft.contract.tools import ToolSpec
from rlft.errors import PolicyError
from rlft.types import Message

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

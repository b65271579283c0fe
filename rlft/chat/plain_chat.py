"""The chat of a model without a chat template, which continues text."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from rlft.chat.base import Chat
from rlft.chat.formats import ToolFormat
from rlft.errors import PolicyError
from rlft.policy.tokens import render_prompt
from rlft.types import Message


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
        text = self._format.write(shielded[0]["content"], shielded[0].get("tool_calls", []))
        return [*self._marks.encode(text, mark=mark), self.stop_token_ids[0]]

"""What a model reads before each task: solved tasks and instructions, of which the environment knows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, cast

from pydantic import Field

from rlft.config import Section
from rlft.types import Message

Form = Literal["turns", "text"]


class Example(Section):
    """Holds a solved task: the messages of its prompt, and those of the answer, with tool calls and their results."""

    prompt: list[Message]
    turns: list[Message]

    def as_text(self) -> str | None:
        """Return question and answer on lines of their own; `None` if it is more than one message each, or has calls.

        Messages of the system are left out, as each task has its own.
        """
        asked = _without_system(self.prompt)
        if [m["role"] for m in asked] != ["user"] or [m["role"] for m in self.turns] != ["assistant"]:
            return None
        return None if self.turns[0].get("tool_calls") else f"{asked[0]['content']}\n{self.turns[0]['content']}"


class Examples(Section):
    """Holds solved tasks and the form in which they are shown, and instructions that end the system's messages.

    As `turns` the tasks are earlier turns of the conversation, after the task's messages of the system. As `text` they
    stand in its first message of the user, before what that says.
    """

    form: Form = "turns"
    shown: list[Example] = Field(default=[])
    instructions: str = Field(default="", exclude_if=lambda instructions: not instructions)

    def before(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a task's prompt with all of this before them; what is given is not changed.

        Raises ValueError if they are to be shown as text, and an example or the prompt cannot hold that.
        """
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        if self.instructions:
            said = "\n\n".join([*(message["content"] for message in system[-1:]), self.instructions])
            messages = [*system[:-1], {"role": "system", "content": said}, *messages[len(system) :]]
            system = list(messages[: max(1, len(system))])
        if self.form == "turns":
            earlier = [each for one in self.shown for each in (*_without_system(one.prompt), *one.turns)]
            return [*system, *earlier, *messages[len(system) :]]
        texts = [one.as_text() for one in self.shown]
        place = next((place for place, message in enumerate(messages) if message["role"] == "user"), None)
        if place is None or None in texts:
            raise ValueError("examples of several messages, or with calls of tools, can only be shown as turns")
        blocks = ["Examples:", *(text for text in texts if text is not None), "Answer in the same way:"]
        said = "\n\n".join([*blocks, messages[place]["content"]])
        return [*messages[:place], cast(Message, {**messages[place], "content": said}), *messages[place + 1 :]]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "system"]

"""Where in an attempt the value stands that a criterion looks at."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from rlft.errors import TaskError
from rlft.graders.json_paths import MISSING, check_path, value_at
from rlft.graders.limited import check_pattern, find_all
from rlft.graders.plain import plain
from rlft.specification.attempt import Attempt, Unmeasured, Unread, no_object
from rlft.specification.piece import Piece
from rlft.specification.templates import is_missing, value_of

Pattern = Annotated[str, AfterValidator(check_pattern)]
"""A regular expression of the package `regex`."""
JsonPath = Annotated[str, AfterValidator(check_path)]
"""A JSON path such as `$.people[0].name`."""


class Read(Piece):
    """Where the value stands; exactly one of these. Without `read` a criterion looks at the whole last message."""

    json_path: JsonPath | None = Field(default=None, description="A path in the one JSON object of the last message.")
    after: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The rest of the one line that begins with this, such as `Answer:`, whatever its case.",
    )
    pattern: Pattern | None = Field(
        default=None,
        description="A regular expression, and no template, that must match exactly once; its first group, if it has "
        "one, is the value.",
    )
    call: JsonPath | None = Field(
        default=None,
        description="A path in the one tool call, an object of `name` and `arguments`, such as `$.arguments.city`. "
        "Several calls that differ are none.",
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if sum(getattr(self, name) is not None for name in type(self).model_fields) != 1:
            raise ValueError("name one place: json_path, after, pattern or call")
        return self

    def says(self) -> str:
        """Return the place in words."""
        if self.json_path is not None:
            return f"the value at {self.json_path} of its JSON object"
        if self.after is not None:
            return f"what stands behind “{self.after}”"
        if self.pattern is not None:
            return f"what the pattern {self.pattern} finds"
        return f"the value at {self.call} of its tool call"

    def value(self, attempt: Attempt) -> Any:
        """Return the JSON value or the text. Raises `Unread` if there is none, or more than one."""
        if self.json_path is not None:
            if attempt.json_object is None:
                raise no_object(attempt, "the last message is not one JSON object")
            return _at(attempt.json_object, self.json_path, "the JSON object")
        if self.call is not None:
            if not attempt.calls:
                raise Unread("there is no tool call")
            if any(call != attempt.calls[0] for call in attempt.calls):
                raise Unmeasured("there are several tool calls that differ")
            return _at(attempt.calls[0], self.call, "the tool call")
        return _declared(attempt.text, self)


def value_read(read: Read | None, attempt: Attempt) -> Any:
    """Return what a criterion looks at. Raises `Unread` if it is not there."""
    return attempt.text if read is None else read.value(attempt)


def text_read(read: Read | None, attempt: Attempt) -> str:
    """Return what a criterion looks at, as text. Raises `Unread` if it is not there."""
    return plain(value_read(read, attempt))


def said(read: Read | None) -> str:
    """Return what a criterion looks at, in words."""
    return "the answer" if read is None else read.says()


def gold_of(template: str, read: Read | None, attempt: Attempt) -> Any:
    """Return what is right. Raises TaskError where the task has none: null or "" is an answer within JSON alone."""
    gold = value_of(template, attempt)
    if is_missing(template, gold) and (read is None or (read.json_path is None and read.call is None)):
        raise TaskError(
            f"{template} is null or empty, so the task has no right answer",
            where="reward.spec",
            fix="name another column, or let `applies` say which tasks have one",
        )
    return gold


def empty_gold(template: str) -> TaskError:
    """Return the error that the text which an attempt should contain is empty."""
    return TaskError(
        f"{template} is empty, and every text contains that",
        where="reward.spec",
        fix="name another column, or let `applies` say which tasks have one",
    )


def _at(value: Any, path: str, what: str) -> Any:
    found = value_at(value, path)
    if found is MISSING:
        raise Unread(f"{what} has nothing at {path}")
    return found


def _declared(text: str, read: Read) -> str:
    if read.pattern is not None:
        found, what = find_all(read.pattern, text, seconds=1.0, most=2), f"the pattern {read.pattern!r:.60}"
    else:
        words = str(read.after).rstrip(" :\uff1a.=-")  # emphasis may end before the colon or behind it
        ends = re.sub("[:\uff1a]", "[:\uff1a]", re.escape(str(read.after)[len(words) :].strip()))
        label = re.escape(words) + r"[*_`]*+\s*+" * bool(words) + ends
        line = rf"(?:[\s*_#>`-]|[0-9]{{1,3}}[.)](?=\s))*{label}[*_]*(.*)"
        lines = (re.fullmatch(line, each, re.IGNORECASE) for each in text.splitlines())
        found, what = [match[1] for match in lines if match], f"{read.after!r}"
    if not found:
        raise Unread(f"{what} is there nowhere")
    if len(found) > 1:
        raise Unmeasured(f"{what} is there more than once")
    return found[0].strip().strip("*_").strip()

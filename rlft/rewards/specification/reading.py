"""What graders read in an attempt: templates filled in, the value that a criterion looks at, and texts found.

Templates are texts with places such as `{{item.answer}}`, in the form of OpenAI's graders. What is filled in is
never read as a template again. A text is found as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from rlft.errors import TaskError
from rlft.rewards.graders.json_values import MISSING, check_path, value_at
from rlft.rewards.graders.plain import check_pattern, find_all, normal, plain
from rlft.rewards.specification.grader import Attempt, Piece, Unmeasured, Unread, no_object
from rlft.texts.characters import apart, nfkc

PLACE = re.compile(r"\{\{([^{}]*)\}\}")
"""A place to fill in, of a checked template."""
_NAME = re.compile(r"\s*item((?:\.[^\s.\[\]{}]+|\[[0-9]+\])+)\s*")
_STEP = re.compile(r"\.([^\s.\[\]]+)|\[([0-9]+)\]")


def check_template(template: str) -> str:
    """Return the template. Raises ValueError for a place that names nothing that could be filled in."""
    for match in PLACE.finditer(template):
        if _NAME.fullmatch(match[1]) is None:
            raise ValueError(
                f"{match[0]!r:.60} names nothing; write {{{{item.COLUMN}}}} for a column of the task's row, or "
                "{{item.answer}} for its answer"
            )
    if "{{" in PLACE.sub("", template):
        raise ValueError(f"{template!r:.60} has an open {{{{; write {{{{item.COLUMN}}}}")
    return template


Template = Annotated[str, AfterValidator(check_template)]
"""A text with places to fill in."""


def filled(template: str, attempt: Attempt) -> str:
    """Return a checked template with its places filled in. Raises TaskError where the task's row lacks one."""
    return PLACE.sub(lambda match: plain(_value(match[1], attempt)), template)


def value_of(template: str, attempt: Attempt) -> Any:
    """Return the JSON value that a template stands for, if it is one place and nothing else; else the filled text.

    Raises as `filled` does.
    """
    match = PLACE.fullmatch(template.strip())
    return filled(template, attempt) if match is None else _value(match[1], attempt)


def _value(place: str, attempt: Attempt) -> Any:
    value: Any = attempt.item
    for name, number in _STEP.findall(place.strip().removeprefix("item")):
        step = name or int(number)
        if not _has(value, step):
            known = ", ".join(map(str, attempt.item))
            raise TaskError(
                f"the task's row has no {place.strip()}",
                where="reward.spec",
                fix=f"name a column that every row has; this one has {known}",
            )
        value = value[step]
    return value


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value


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
    is_empty = gold is None or (PLACE.search(template) and isinstance(gold, str) and not gold.strip())
    if is_empty and (read is None or (read.json_path is None and read.call is None)):
        raise TaskError(
            f"{template} is null or empty, so the task has no right answer",
            where="reward.spec",
            fix="name another column, or let `applies` say which tasks have one",
        )
    return gold


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


_NUMBER = re.compile(  # with its sign; neither a date such as 5.3.2024 or 5/3/2024 nor a list such as 1,3,5 is one
    r"(?<![\d.,/])(?:(?<!\w)[-\u2212\u2013])?(?:\d{1,3}/\d{1,3}|(?:\d{1,3}(?:,\d{3})+|\d+|(?<!\w)(?=\.\d))(?:\.\d+)?)"
    r"(?!\d|[.,/]\d)"
)
# Apostrophes, and half-width kana.
_SAME = dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'") | {each: nfkc(chr(each)) for each in range(0xFF66, 0xFFA0)}


def expanded(templates: Sequence[str], attempt: Attempt) -> list[str]:
    """Return the filled templates, with lists taken apart; null and empty texts ask for nothing."""
    values = [value_of(each, attempt) for each in templates]
    items = [item for value in values for item in (value if isinstance(value, list) else [value]) if item is not None]
    return list(dict.fromkeys(filter(str.strip, map(plain, items))))


def found_in(wanted: Sequence[str], text: str, *, ignore_case: bool, whole_words: bool) -> list[str]:
    """Return those of the wanted texts that stand in a text."""

    def compared(text: str) -> str:
        return normal(apart(text.translate(_SAME)), ignore_case=ignore_case, ignore_space=True)

    whole = compared(text)
    cut = {at for match in _NUMBER.finditer(whole) for at in range(match.start() + 1, match.end())}
    return [each for each in wanted if _stands(compared(each), whole, cut if whole_words else None)]


def check_asks_for_nothing(templates: Sequence[str], attempt: Attempt) -> None:
    """Raise TaskError unless one of the templates is a list without items, which asks for nothing on purpose."""
    if not any(isinstance(value_of(each, attempt), list) for each in templates):
        for each in templates:
            gold_of(each, None, attempt)
        raise TaskError(
            f"{templates[0]} is empty, and every text contains that",
            where="reward.spec",
            fix="name another column, or let `applies` say which tasks have one",
        )


def _stands(wanted: str, text: str, numbers: Collection[int] | None) -> bool:
    """Return whether a text holds another one, which is not empty.

    Given the places inside its `numbers`, no part of a word or of a number counts.
    """
    place = text.find(wanted) if wanted else -1
    while place >= 0:
        end = place + len(wanted)
        before, after = text[max(place - 1, 0) : place], text[end : end + 1]
        if numbers is None:
            return True
        begins_inside = wanted[0].isalnum() and (before.isalnum() or place in numbers)
        if not begins_inside and not (wanted[-1].isalnum() and (after.isalnum() or end in numbers)):
            return True
        place = text.find(wanted, place + 1)
    return False

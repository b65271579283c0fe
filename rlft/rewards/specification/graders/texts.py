"""Graders that look at a text: what it is, what it holds, and how long it is."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlft.rewards.graders.plain import Measured, find, normal, plain, size
from rlft.rewards.specification.grader import Attempt, Grader, Verdict, met, short
from rlft.rewards.specification.reading import (
    Pattern,
    Read,
    Template,
    check_asks_for_nothing,
    expanded,
    found_in,
    gold_of,
    said,
    text_read,
)

_READ = Field(default=None, description="Where the text stands. null means the whole last message.")
_GOLD = Field(default="{{item.answer}}", description="What is right; a template.")
_CASE = Field(default=True, description="Whether letters in upper and lower case are the same.")
_SPACE = Field(default=True, description="Whether surplus white space counts for nothing.")
_WHOLE = Field(
    default=True,
    description="Whether only whole words and numbers count: `art` is not in `party`, nor `3` in `3.14`, `-3`, `1/3` "
    "or `3,000`. In Korean and scripts without spaces each letter is a word. That goes for penalties, too: with false "
    "`sorrys` costs what `sorry` does.",
)
_TEXTS = Field(min_length=1, description="Templates; one that is a list stands for its items.")


class Exact(Grader):
    """The text is the right one, or one of several."""

    type: Literal["exact"]
    read: Read | None = _READ
    gold: Template = _GOLD
    any_of: list[Template] | None = Field(
        default=None, min_length=1, description="Texts any of which is right, in place of `gold`."
    )
    ignore_case: bool = _CASE
    ignore_space: bool = _SPACE

    def says(self) -> str:
        """Return what is checked, in words."""
        gold = f"one of {', '.join(self.any_of)}" if self.any_of else self.gold
        return f"{said(self.read)} is {gold}" + (", whatever its case" if self.ignore_case else "")

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the text is a right one, else 0."""
        golds = [plain(gold_of(each, self.read, attempt)) for each in self.any_of or [self.gold]]
        given = text_read(self.read, attempt)
        form = {"ignore_case": self.ignore_case, "ignore_space": self.ignore_space}
        holds = normal(given, **form) in [normal(gold, **form) for gold in golds]
        right = " or ".join(map(short, golds))
        return met(holds, f"it is {right}", f"{short(given)} is not {right}")


class _Held(Grader):
    """Looks for texts within the text."""

    read: Read | None = _READ
    texts: list[Template] = _TEXTS
    ignore_case: bool = _CASE
    whole_words: bool = _WHOLE

    def _found(self, wanted: list[str], attempt: Attempt) -> list[str]:
        text = text_read(self.read, attempt)
        return found_in(wanted, text, ignore_case=self.ignore_case, whole_words=self.whole_words)


class Contains(_Held):
    """The text holds what it should. This sees presence alone: a text that says the opposite holds it, too."""

    type: Literal["contains"]
    need: Literal["all", "any", "share"] = Field(
        default="all", description="Whether all are needed, one is enough, or the share of them is the score."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        how = {"all": "all of ", "any": "one of ", "share": "as many as possible of "}[self.need]
        return f"{said(self.read)} holds {how if len(self.texts) > 1 else ''}{', '.join(self.texts)}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the texts are there, else 0, or their share.

        A list without items asks for nothing: what asks for it is met, and costs nothing as a penalty. Raises TaskError
        where all that it could ask for is null or empty, as every text contains that.
        """
        wanted = expanded(self.texts, attempt)
        if not wanted:
            check_asks_for_nothing(self.texts, attempt)
            return met(not attempt.is_penalised, "nothing is asked for", "nothing is asked for")
        there = self._found(wanted, attempt)
        absent = [each for each in wanted if each not in there]
        why = f"{', '.join(map(short, absent))} is absent" if absent else "all is there"
        if self.need == "share":
            return Verdict(len(there) / len(wanted), why)
        holds = not absent if self.need == "all" else bool(there)
        return met(holds, why if self.need == "all" else f"{', '.join(map(short, there))} is there", why)


class Lacks(_Held):
    """The text does not hold what it should not."""

    type: Literal["lacks"]

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"{said(self.read)} holds nothing of {', '.join(self.texts)}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if none of the texts is there, else 0."""
        unwanted = expanded(self.texts, attempt)
        there = self._found(unwanted, attempt)
        return met(not there, "nothing of it is there", f"{', '.join(map(short, there))} is there")


class Matches(Grader):
    """The text matches a regular expression. One that backtracks for ever is cut, as an error of that attempt."""

    libraries = ("regex",)

    type: Literal["pattern"]
    read: Read | None = _READ
    pattern: Pattern = Field(description="A regular expression of Python's package `regex`, and no template.")
    whole: bool = Field(default=False, description="Whether the whole text must match, not only a part of it.")
    absent: bool = Field(default=False, description="Whether it must not match.")
    seconds: float = Field(
        default=1.0, gt=0, le=10, description="Seconds of processor time after which matching is cut."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        verb = "does not match" if self.absent else "matches"
        return f"{said(self.read)} {verb} the pattern {self.pattern}" + (" as a whole" if self.whole else "")

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the text matches (or must not and does not), else 0. Raises `PatternTooSlow`."""
        match = find(self.pattern, text_read(self.read, attempt), seconds=self.seconds, whole=self.whole)
        why = "it does not match" if match is None else f"it matches at {short(match)}"
        return met((match is None) == self.absent, why, why)


class Length(Grader):
    """The text is as long as it should be."""

    type: Literal["length"]
    read: Read | None = _READ
    measured: Measured = Field(default="words", description="What is counted.")
    at_least: int | None = Field(default=None, ge=0, le=10**9, description="No fewer than so many.")
    at_most: int | None = Field(default=None, ge=0, le=10**9, description="No more than so many.")

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("write at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"no text has at least {self.at_least} and at most {self.at_most}; exchange them")
        return self

    def says(self) -> str:
        """Return what is checked, in words."""
        low = "" if self.at_least is None else f"at least {self.at_least}"
        high = "" if self.at_most is None else f"at most {self.at_most}"
        last = self.at_least if self.at_most is None else self.at_most
        return f"{said(self.read)} has {' and '.join(filter(None, (low, high)))} {self._named(last)}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 if the number is within the limits, else 0."""
        number = size(text_read(self.read, attempt), self.measured)
        low, high = self.at_least or 0, number if self.at_most is None else self.at_most
        why = f"it has {number} {self._named(number)}"
        return met(low <= number <= high, why, why)

    def _named(self, count: int | None) -> str:
        return self.measured.removesuffix("s") if count == 1 else self.measured

"""A specification: named criteria in plain words, each with a grader, and cases that say what attempts deserve.

`in_words` says one in sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any, Self, Union

from pydantic import AfterValidator, Field, ValidationError, model_validator

from rlft.rewards.specification.grader import Grader, JudgeSettings, Piece
from rlft.rewards.specification.reading import Template


def _shipped() -> dict[str, type[Grader]]:
    """Return {type: class} of the graders in the files of the room `graders`, in the order of the alphabet.

    Raises TypeError if two classes have one type.
    """
    shipped: dict[str, type[Grader]] = {}
    room = import_module("rlft.rewards.specification.graders")
    for module in (import_module(f"{room.__name__}.{found.name}") for found in iter_modules(room.__path__)):
        for found in vars(module).values():
            is_own = isinstance(found, type) and issubclass(found, Grader) and found.__module__ == module.__name__
            if is_own and (name := found.kind()) and shipped.setdefault(name, found) is not found:
                raise TypeError(f"two graders have the type {name!r}: {shipped[name].__module__}, {module.__name__}")
    return dict(sorted(shipped.items()))


GRADERS = _shipped()
if TYPE_CHECKING:
    AnyGrader = Grader
else:
    AnyGrader = Annotated[Union[tuple(GRADERS.values())], Field(discriminator="type")]  # noqa: UP007 - made of a list
LARGEST = 1e6
"""The largest weight and bound of a criterion."""
GATE = "essentials"
"""The metric that says whether an attempt has met all essential criteria; a part of weight 0."""


def check_part(name: str) -> str:
    """Return the name of a criterion. Raises ValueError for one that could not be a part of a reward."""
    if not name.strip() or name != name.strip() or len(name) > 80 or not name.isprintable():
        raise ValueError(f"{name!r:.80} is no name: write 1 to 80 characters that can be seen")
    if refused := sorted(set(name) & set("/*:@")):
        raise ValueError(f"{name!r} holds {' and '.join(refused)}; use letters, digits, spaces, _ and -")
    if name == GATE:
        raise ValueError(f"{GATE} is the name of the metric of essential criteria; use another name")
    return name


PartName = Annotated[str, AfterValidator(check_part)]
"""The name of a criterion, which is a part of the reward."""


class Applies(Piece):
    """To which tasks a criterion applies. It asks the task and never the attempt, so that no attempt can choose."""

    when: Template = Field(description="A template of the task's row, such as `{{item.kind}}`.")
    any_of: list[str | int | float | bool | None] | None = Field(
        default=None,
        min_length=1,
        description="Values for which it applies. null: whenever it is not empty, null, 0, false or no, which may be "
        "texts, as a CSV file has them.",
    )

    @model_validator(mode="after")
    def _asks_the_task(self) -> Self:
        if "{{" not in self.when:
            raise ValueError("`when` asks the task's row: write {{item.COLUMN}}")
        return self


class Criterion(Piece):
    """One thing that an attempt is paid for, or pays for."""

    says: str = Field(min_length=1, max_length=2000, description="What is wanted, in plain words.")
    grader: AnyGrader
    weight: float = Field(
        default=1.0, ge=-LARGEST, le=LARGEST, description="Its weight; negative for a penalty, 0 for a metric."
    )
    essential: bool = Field(
        default=False,
        description="Whether it is a gate: an attempt that does not meet it is paid nothing for the other criteria.",
    )
    minimum: float = Field(default=0.0, ge=-LARGEST, le=LARGEST, description="Its lowest score.")
    maximum: float = Field(default=1.0, ge=0, le=LARGEST, description="Its highest score, which is full.")
    met_from: float | None = Field(
        default=None, ge=-LARGEST, le=LARGEST, description="Score from which it counts as met. null means the highest."
    )
    applies: Applies | None = Field(default=None, description="To which tasks it applies. null means all.")

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError(f"minimum={self.minimum:g} is not below maximum={self.maximum:g}; change one of them")
        if self.weight < 0 and self.minimum < 0:
            raise ValueError("a penalty (negative weight) with a minimum below 0 would pay; set minimum to 0")
        if self.essential and self.weight < 0:
            raise ValueError("a penalty cannot be essential; say what must hold, with a weight of 0 or more")
        if self.met_from is not None and not self.minimum < self.met_from <= self.maximum:
            raise ValueError(f"met_from={self.met_from:g} is no score above the minimum and up to the maximum")
        if self.grader.bounded and (self.minimum > 0 or self.maximum < 1):
            raise ValueError(f"the grader {self.grader.kind()} scores from 0 to 1; let minimum and maximum hold that")
        return self

    def is_met(self, score: float) -> bool:
        """Return whether a score counts as met."""
        return score >= (self.maximum if self.met_from is None else self.met_from) - 1e-9


class Case(Piece):
    """An expert's test: an attempt, and the range in which its total must lie."""

    attempt: str | list[dict[str, Any]] = Field(description="What the model says; a list of messages with tool calls.")
    task: str | None = Field(default=None, description="Id of the task. Without one and without `item`: an empty row.")
    item: dict[str, Any] | None = Field(default=None, description="The row of a task, in place of an id.")
    at_least: float | None = Field(default=None, ge=-1e9, le=1e9, description="The total is no lower.")
    at_most: float | None = Field(default=None, ge=-1e9, le=1e9, description="The total is no higher.")
    reason: str = Field(min_length=1, max_length=2000, description="Why, in a sentence.")

    @model_validator(mode="after")
    def _says_what_is_expected(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("write at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"no total is at least {self.at_least:g} and at most {self.at_most:g}; exchange them")
        if self.task is not None and self.item is not None:
            raise ValueError("`task` and `item` are both given; keep one")
        return self


class Specification(Piece):
    """What an attempt is paid for, written so that a person can read it aloud."""

    says: str = Field(default="", max_length=10_000, description="What the reward is about, in plain words.")
    criteria: dict[PartName, Criterion] = Field(
        min_length=1, max_length=100, description="The criteria by name. Each is a part of the reward."
    )
    gold: Template | None = Field(
        default=None,
        description="How a full answer is written, as a template of the task's row, for the audit and demonstrations. "
        "null means what the environment says, which is the task's answer.",
    )
    judge: JudgeSettings | None = Field(
        default=None,
        exclude_if=lambda judge: judge is None,
        description="The model that answers for graders of the types `judge` and `ruler`.",
    )
    cases: list[Case] = Field(default=[], max_length=1000, description="Attempts, and what they deserve.")

    @model_validator(mode="after")
    def _pays_for_something(self) -> Self:
        paid = [each for each in self.criteria.values() if each.weight > 0]
        if not paid:
            raise ValueError("criteria: none has a positive weight, so that nothing can be earned; set one")
        if all(each.applies is not None for each in paid):
            raise ValueError("criteria: each that pays applies to some tasks only; let one apply to all")
        return self

    def graders(self) -> Iterator[Grader]:
        """Yield all graders."""
        yield from (each.grader for each in self.criteria.values())

    def functions(self) -> list[str]:
        """Return the names of the user's functions and scorers, each once, in the order of the alphabet."""
        return sorted({name for each in self.graders() for name in each.functions()})

    @property
    def compares(self) -> bool:
        """Whether a criterion compares the attempts at a task with each other."""
        return any(each.compares for each in self.graders())

    def weights(self) -> dict[str, float]:
        """Return {part: weight}; a gate is shown by a metric, `GATE`."""
        gate = {GATE: 0.0} if self.has_gate else {}
        return {name: each.weight for name, each in self.criteria.items()} | gate

    def weighed(self, weights: Mapping[str, float]) -> Self:
        """Return the specification with these weights in the place of its own, as a gate must know which ones count.

        Raises ValueError where it could not be written with them, such as for an essential criterion of weight -1.
        """
        if not weights.keys() & self.criteria.keys():
            return self
        content = self.model_dump(mode="json", exclude_defaults=True)
        for name in weights.keys() & self.criteria.keys():
            content["criteria"][name]["weight"] = weights[name]
        try:
            return type(self).model_validate(content)
        except ValidationError as cause:
            problems = "; ".join(each["msg"].removeprefix("Value error, ") for each in cause.errors())
            raise ValueError(f"reward.weights do not go with reward.spec: {problems}") from cause

    @property
    def has_gate(self) -> bool:
        """Whether any criterion is essential."""
        return any(each.essential for each in self.criteria.values())

    def scoring(self) -> dict[str, Any]:
        """Return what scores depend on, as JSON: all but words and cases."""
        content = self.model_dump(mode="json", exclude={"says", "cases", "judge"})
        if self.judge is not None:
            content["judge"] = self.judge.scoring()
        for criterion in content["criteria"].values():
            del criterion["says"]
        return content


def in_words(specification: Specification, weights: Mapping[str, float] | None = None) -> str:
    """Return the specification as sentences, one paragraph for each criterion.

    `weights` override those of the criteria, as `reward.weights` does.
    """
    given = {name: (weights or {}).get(name, each.weight) for name, each in specification.criteria.items()}
    full = math.fsum(max(0.0, given[name]) * each.maximum for name, each in specification.criteria.items())
    lines = [specification.says.strip()] if specification.says.strip() else []
    lines.append(f"A full attempt earns {full:g}.")
    for number, (name, each) in enumerate(specification.criteria.items(), start=1):
        lines.append(f"{number}. {name}: {' '.join(_sentences(each, given[name]))}")
    if (judge := specification.judge) is not None:
        votes = "" if judge.votes == 1 else f", by {judge.votes} votes"
        lines.append(f"The judge is {judge.model} at {judge.endpoint}{votes}.")
    if number := len(specification.cases):
        lines.append(f"{number} case{' says' if number == 1 else 's say'} what attempts deserve.")
    return "\n\n".join(lines)


def sentence(text: str) -> str:
    """Return a text that begins with a capital and ends with a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _sentences(criterion: Criterion, weight: float) -> Iterator[str]:
    yield sentence(criterion.says)
    if weight < 0:
        # What a penalty is about may be said as what is wanted or as what is not; what costs is said apart.
        cost = f"It is a penalty. It costs up to {-weight * criterion.maximum:g} if this is so"
        yield sentence(f"{cost}: {criterion.grader.says()}")
    else:
        yield sentence(f"It is checked whether {criterion.grader.says()}")
        yield _worth(criterion, weight)
    if criterion.essential:
        yield "It is essential: an attempt that does not meet it is paid for no other criterion."
    if criterion.applies is not None:
        yield sentence(f"It applies {_applies(criterion.applies)}; for other tasks it counts as the mean of the rest")


def _worth(criterion: Criterion, weight: float) -> str:
    if weight == 0:
        return "It is a metric, and pays nothing."
    least = f", and costs {-weight * criterion.minimum:g} at worst" if criterion.minimum < 0 else ""
    return f"It pays up to {weight * criterion.maximum:g}{least}."


def _applies(condition: Applies) -> str:
    if condition.any_of is None:
        return f"where {condition.when} is not empty"
    return f"where {condition.when} is {' or '.join(map(str, condition.any_of))}"

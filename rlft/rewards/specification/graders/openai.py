"""OpenAI's graders that compute: `string_check`, `text_similarity` and `multi`, with their fields and their meaning.

https://platform.openai.com/docs/guides/graders, and the types in the package `openai` (`openai/types/graders`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from rlft.rewards.graders.formulas import check_formula, compute
from rlft.rewards.graders.similarity import Measure
from rlft.rewards.specification.grader import Attempt, Grader, Unmeasured, Unread, Verdict, met, short
from rlft.rewards.specification.graders.judged import LabelModel, ScoreModel
from rlft.rewards.specification.graders.programs import Program
from rlft.rewards.specification.reading import Template, empty_gold, filled, likeness, readings, reference_of

_OPERATIONS = {"eq": "is", "ne": "is not", "like": "contains", "ilike": "contains, whatever the case,"}
_NAME = Field(default="", description="A name, which is not read.")
_REFUSED = {
    "meteor": "it needs WordNet's data, which would be downloaded; take rouge_l or fuzzy_match",
    "cosine": "it needs OpenAI's hosted embeddings; take rouge_l or fuzzy_match",
}


class StringCheck(Grader):
    """OpenAI's `string_check`: two texts are compared as they are."""

    type: Literal["string_check"]
    name: str = _NAME
    input: Template = Field(description="The text, such as `{{sample.output_text}}`.")
    reference: Template = Field(description="What it is compared with, such as `{{item.answer}}`.")
    operation: Literal["eq", "ne", "like", "ilike"] = Field(
        description="`eq` (the same), `ne` (not the same), `like` (contains it), `ilike` (contains it in any case)."
    )

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"{self.input} {_OPERATIONS[self.operation]} {self.reference}"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return 1 or 0. Raises TaskError where the task has nothing to compare with."""
        text, reference = filled(self.input, attempt), reference_of(self.reference, attempt)
        if not reference and self.operation in ("like", "ilike"):
            if "sample." not in self.reference:
                raise empty_gold(self.reference)
            return Verdict(0.0, f"{self.reference} of the attempt is empty")
        as_seen = attempt.is_penalised and self.operation != "ne"
        holds = any(self._holds(*pair) for pair in readings(text, reference, as_seen=as_seen))
        why = f"{short(text)} {_OPERATIONS[self.operation]} {short(reference)}"
        return met(holds, why, f"it is not so that {why}")

    def _holds(self, text: str, reference: str) -> bool:
        if self.operation == "ilike":
            return reference.casefold() in text.casefold()
        return {"eq": text == reference, "ne": text != reference, "like": reference in text}[self.operation]


class TextSimilarity(Grader):
    """OpenAI's `text_similarity`: how alike two texts are. `meteor` and `cosine` are refused, with the reason."""

    libraries = ("rapidfuzz", "sacrebleu")

    type: Literal["text_similarity"]
    name: str = _NAME
    input: Template = Field(description="The text, such as `{{sample.output_text}}`.")
    reference: Template = Field(description="What it is compared with, such as `{{item.answer}}`.")
    evaluation_metric: Measure = Field(description="How likeness is measured, from 0 to 1.")

    @field_validator("evaluation_metric", mode="before")
    @classmethod
    def _is_computed_here(cls, measure: Any) -> Any:
        if isinstance(measure, str) and measure in _REFUSED:
            raise ValueError(f"{measure} is not computed here: {_REFUSED[measure]} ({', '.join(get_args(Measure))})")
        return measure

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"{self.input} is like {self.reference} ({self.evaluation_metric})"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return the likeness, 0 to 1. Raises TaskError where the task has nothing to compare with."""
        text, reference = filled(self.input, attempt), reference_of(self.reference, attempt)
        pairs = readings(text, reference, as_seen=attempt.is_penalised, fold=True)
        found = max(likeness(self.evaluation_metric, *pair, self.reference) for pair in pairs)
        return Verdict(found, f"{self.evaluation_metric} is {found:.3f}")


class Multi(Grader):
    """OpenAI's `multi`: a formula of the scores of several graders."""

    bounded: ClassVar[bool] = False

    type: Literal["multi"]
    name: str = _NAME
    graders: dict[str, StringCheck | TextSimilarity | Program | ScoreModel | LabelModel] = Field(
        min_length=1, max_length=50, description="Graders by the names that the formula uses."
    )
    calculate_output: str = Field(
        description="The formula: numbers, names of graders, + - * / ^, min, max, abs, floor, ceil, exp, sqrt and log."
    )

    @model_validator(mode="after")
    def _computes_with_what_there_is(self) -> Self:
        if wrong := next((name for name in self.graders if not name.isidentifier()), None):
            raise ValueError(f"graders: {wrong!r} cannot stand in a formula; use letters, digits and _")
        check_formula(self.calculate_output, self.graders)
        return self

    def says(self) -> str:
        """Return what is checked, in words."""
        parts = "; ".join(f"{name} is whether {each.says()}" for name, each in self.graders.items())
        return f"{self.calculate_output} is high, where {parts}"

    def inner(self) -> Iterator[Grader]:
        """Yield the graders of the formula."""
        yield from self.graders.values()

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the formula comes to. Raises ValueError where that is no finite number."""
        scores: dict[str, float] = {}
        for name, each in self.graders.items():
            try:
                scores[name] = (await each.grade(attempt)).score
            except Unmeasured:  # what the formula makes of the worst score of a grader is not known
                raise
            except Unread:
                scores[name] = 0.0
        result = compute(self.calculate_output, scores)
        return Verdict(result, ", ".join(f"{name} {score:g}" for name, score in scores.items()))

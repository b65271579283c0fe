"""Makes a specification of OpenAI's graders, as they stand in a JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from rlft.errors import ConfigError
from rlft.graders.formulas import linear_terms
from rlft.specification.judged import LabelModel, ScoreModel
from rlft.specification.model import Specification
from rlft.specification.openai import Multi, StringCheck, TextSimilarity
from rlft.specification.programs import Program
from rlft.specification.words import sentence

_Any = StringCheck | TextSimilarity | Program | ScoreModel | LabelModel | Multi
_ANY: TypeAdapter[_Any] = TypeAdapter(Annotated[_Any, Field(discriminator="type")])
TYPES = ("string_check", "text_similarity", "python", "score_model", "label_model", "multi")


def import_grader(content: Any, *, where: str) -> Specification:
    """Return the specification of one of OpenAI's graders.

    A `multi` whose formula is a sum of graders, each times a number, becomes a criterion for each, whose parts are
    seen apart and whose total is the same. Any other grader becomes one criterion. Raises ConfigError for what is none
    of `TYPES`, and for what is refused, with the reason.
    """
    if not isinstance(content, Mapping) or content.get("type") not in TYPES:
        fix = f"give one JSON object whose `type` is {', '.join(TYPES)}"
        raise ConfigError("it is no grader", where=where, fix=fix)
    try:
        grader = _ANY.validate_python(dict(content))
        says = f"Taken over from OpenAI's grader {grader.name or grader.type}."
        return Specification.model_validate({"says": says, "criteria": _criteria(grader)})
    except ValidationError as error:
        problems = "\n".join(f"  {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:20])
        fix = "docs/guide/reward-specification.md has all fields"
        raise ConfigError(f"it cannot be taken over:\n{problems}", where=where, fix=fix) from None


def _criteria(grader: _Any) -> dict[str, Any]:
    terms = linear_terms(grader.calculate_output) if isinstance(grader, Multi) else None
    if isinstance(grader, Multi) and terms is not None and any(factor > 0 for factor in terms.values()):
        return {name: _criterion(grader.graders[name], factor) for name, factor in terms.items()}
    name = re.sub(r"[/*:@]", " ", grader.name).strip()[:80] or grader.type
    return {name: _criterion(grader, 1.0)}


def _criterion(grader: _Any, weight: float) -> dict[str, Any]:
    said = grader.model_dump(mode="json", exclude_defaults=True)
    made = {"says": sentence(grader.says())[:2000], "weight": weight, "grader": said}
    if isinstance(grader, ScoreModel) and grader.range is not None:
        made |= {"minimum": min(0.0, grader.range[0]), "maximum": grader.range[1]}
    return made

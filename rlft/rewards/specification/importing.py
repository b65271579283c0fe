"""A specification made of OpenAI's graders, as they stand in a JSON file, and a specification in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from rlft.errors import ConfigError
from rlft.rewards.graders.formulas import Range, formula_range, linear_terms
from rlft.rewards.specification.grader import FIELDS
from rlft.rewards.specification.graders.judged import LabelModel, ScoreModel
from rlft.rewards.specification.graders.openai import Multi, StringCheck, TextSimilarity
from rlft.rewards.specification.graders.programs import Program
from rlft.rewards.specification.model import Applies, Criterion, Specification

_Any = StringCheck | TextSimilarity | Program | ScoreModel | LabelModel | Multi
_ANY: TypeAdapter[_Any] = TypeAdapter(Annotated[_Any, Field(discriminator="type")])
TYPES = ("string_check", "text_similarity", "python", "score_model", "label_model", "multi")


def import_grader(content: Any, *, where: str) -> Specification:
    """Return the specification of one of OpenAI's graders.

    A `multi` whose formula is a sum of graders, each times a number, becomes a criterion for each, whose parts are
    seen apart and whose total is the same. Any other grader becomes one criterion, whose bounds are those of its
    formula. Raises ConfigError for what is none of `TYPES`, for a formula without bounds, and for what is refused, with
    the reason.
    """
    if not isinstance(content, Mapping) or content.get("type") not in TYPES:
        fix = f"give one JSON object whose `type` is {', '.join(TYPES)}"
        raise ConfigError("it is no grader", where=where, fix=fix)
    try:
        grader = _ANY.validate_python(dict(content))
        criteria = _criteria(grader)
        says = f"Taken over from OpenAI's grader {grader.name or grader.type}."
        if any(isinstance(each, Program) for each in (grader, *grader.inner())):
            says += " Its programs are taken to score from 0 to 1; where they do not, change `minimum` and `maximum`."
        return Specification.model_validate({"says": says, "criteria": criteria})
    except ValidationError as error:
        problems = "\n".join(
            f"  {'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()[:20]
        )
        fix = f"{FIELDS} has all fields"
        raise ConfigError(f"it cannot be taken over:\n{problems}", where=where, fix=fix) from None
    except ValueError as error:  # of `formula_range`
        raise ConfigError(
            f"it cannot be taken over: calculate_output: {error}, so that nothing says what a full score is",
            where=where,
            fix="bound that part, such as a / max(b, 0.1), or min(x, 1)",
        ) from None


def _criteria(grader: _Any) -> dict[str, Any]:
    terms = linear_terms(grader.calculate_output) if isinstance(grader, Multi) else None
    if isinstance(grader, Multi) and terms is not None and any(factor > 0 for factor in terms.values()):
        return {name: _criterion(grader.graders[name], factor) for name, factor in terms.items()}
    name = re.sub(r"[/*:@]", " ", grader.name).strip()[:80] or grader.type
    return {name: _criterion(grader, 1.0)}


def _criterion(grader: _Any, weight: float) -> dict[str, Any]:
    said = grader.model_dump(mode="json", exclude_defaults=True)
    made = {"says": sentence(grader.says())[:2000], "weight": weight, "grader": said}
    if (bounds := _bounds(grader)) != (0.0, 1.0):
        made |= {"minimum": min(0.0, bounds[0]), "maximum": bounds[1]}
    return made


def _bounds(grader: _Any) -> Range:
    """Return the lowest and the highest score; a program's are not known, and taken to be 0 and 1."""
    if isinstance(grader, Multi):
        return formula_range(grader.calculate_output, {name: _bounds(each) for name, each in grader.graders.items()})
    if isinstance(grader, ScoreModel) and grader.range is not None:
        return grader.range[0], grader.range[1]
    return 0.0, 1.0


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
        lines.append(f"The judge is {judge.model} at {judge.place}{votes}.")
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
